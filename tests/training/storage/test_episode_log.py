"""Episodes and times of run folders, read back in any condition."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from briskrl import resume, train
from briskrl.core.errors import RunFolderError
from briskrl.training.storage.episode_log import means_between, read_episodes, seconds_after
from briskrl.training.storage.line_files import read_jsonl
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.storage.training_times import read_metrics
from tests.training.runs import small_config

HEADER = "env_steps,env,steps,return,score,won,cause\n"


def run_with(folder: Path, episodes: str = "", metrics: list[dict[str, float]] | None = None):
    (folder / "config.toml").write_text('env = "snake"\nalgo = "dqn"\n')
    (folder / "episodes.csv").write_text(episodes)
    if metrics is not None:
        lines = "".join(json.dumps(row) + "\n" for row in metrics)
        (folder / "metrics.jsonl").write_text(lines)
    return RunDir.open(folder)


def test_scores_and_returns_are_read_without_a_line_that_is_being_written(tmp_path: Path) -> None:
    run = run_with(tmp_path, HEADER + "16,0,9,-1.5,2,0,1\n32,1,9,4,3,1,2\n48,0,9,7,1")
    assert read_episodes(run).steps.tolist() == [16, 32]
    assert read_episodes(run).values.tolist() == [2, 3]
    assert read_episodes(run, "return").values.tolist() == [-1.5, 4]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no finished episodes yet"),
        (HEADER, "no finished episodes yet"),
        (HEADER + "16,0,9", "no finished episodes yet"),
        ("a,b\n1,2\n", "cannot be read"),
        (HEADER + "16,0\n", "cannot be read"),
        (HEADER + "16,0,9,x,y,0,1\n", "cannot be read"),
        (HEADER + "16,0,9,nan,nan,0,1\n", "a score is not a finite number"),
        ("\x00\xff\n\n", "cannot be read|no finished"),
    ],
)
def test_files_without_episodes_are_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(RunFolderError, match=message):
        read_episodes(run_with(tmp_path, content))


def test_times_go_on_from_session_to_session(tmp_path: Path) -> None:
    rows = [
        {"env_steps": 100, "wall_s": 1.0, "cpu_s": 0.5, "steps_per_s": 100.0},
        {"env_steps": 300, "wall_s": 3.0, "cpu_s": 1.5, "steps_per_s": 100.0},
        # A second session, whose clock begins anew.
        {"env_steps": 400, "wall_s": 1.0, "cpu_s": 1.0, "steps_per_s": 100.0},
        # A third one; only the speed shows that the clock began anew.
        {"env_steps": 700, "wall_s": 2.0, "cpu_s": 2.0, "steps_per_s": 150.0},
        {"env_steps": 900, "wall_s": 4.0, "cpu_s": 4.0, "steps_per_s": 100.0},
    ]
    run = run_with(tmp_path, metrics=rows)
    found = list(read_metrics(run.path / "metrics.jsonl"))
    assert [row["wall_s"] for row in found] == [1, 3, 4, 6, 8]
    assert [row["cpu_s"] for row in found] == [0.5, 1.5, 2.5, 4.5, 6.5]
    steps = np.array([50.0, 300.0, 800.0, 2000.0])
    assert seconds_after(run, steps, "wall_s").tolist() == [0.5, 3.0, 7.0, 8.0]


def test_times_of_a_resumed_run_are_those_of_both_sessions(tmp_path: Path) -> None:
    config = small_config(tmp_path / "run", log_seconds=0.02, steps=2000)
    train(config)
    text = (tmp_path / "run" / "config.toml").read_text()
    (tmp_path / "run" / "config.toml").write_text(text.replace("steps = 2000", "steps = 4000", 1))
    resume(tmp_path / "run")
    path = tmp_path / "run" / "metrics.jsonl"
    raw, found = list(read_jsonl(path)), list(read_metrics(path))
    for clock in ("wall_s", "cpu_s"):
        first = [row[clock] for row in raw if row["env_steps"] <= 2000]
        second = [row[clock] for row in raw if row["env_steps"] > 2000]
        assert [row[clock] for row in found] == first + [first[-1] + time for time in second]
        assert second


def test_missing_times_are_reported(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    with pytest.raises(RunFolderError, match="no times yet"):
        seconds_after(run, np.array([1.0]), "cpu_s")
    run = run_with(tmp_path, metrics=[{"env_steps": 1, "wall_s": 1.0}])
    with pytest.raises(RunFolderError, match=r"times of .* cannot be read"):
        seconds_after(run, np.array([1.0]), "cpu_s")


def test_means_are_taken_between_edges() -> None:
    x, values = np.array([1.0, 2.0, 2.0, 5.0]), np.array([1.0, 2.0, 4.0, 8.0])
    means = means_between(x, values, np.array([0.0, 2.0, 4.0, 6.0]))
    np.testing.assert_array_equal(means, [7 / 3, np.nan, 8])
