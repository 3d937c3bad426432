"""Scores of one run, read from a folder with known episodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from briskrl.cluster.run_scores import EvalScore, read_scores
from briskrl.core.errors import RunFolderError
from briskrl.core.types import JSON
from briskrl.training.storage.run_dir import RunDir
from tests.cluster.run_folders import make_run, put_result


def test_the_final_score_of_training_is_the_mean_of_its_last_tenth(tmp_path: Path) -> None:
    # Episode k ends after 100 k transitions; the last tenth of 3000 begins after 2700.
    run = make_run(tmp_path / "a", [0.0] * 27 + [1.0, 2.0, 6.0])
    assert read_scores(run, "score").final == 3.0
    assert read_scores(run, "return").final == 30.0
    single = read_scores(make_run(tmp_path / "b", [7.0]), "score")
    assert (single.final, single.mean_of_first(100)) == (7.0, 7.0)
    assert read_scores(run, "score").mean_of_first(28) == 1 / 28


def test_counters_and_clocks_come_from_the_logs(tmp_path: Path) -> None:
    scores = read_scores(make_run(tmp_path / "a", [1.0, 2.0, 3.0, 4.0]), "score")
    assert (scores.env_steps, scores.cpu_s, scores.is_finished) == (400, 0.4, True)
    np.testing.assert_allclose(scores.places("cpu_s"), [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(scores.places("wall_s", np.array([100.0])), [0.05])
    assert scores.places("env_steps").tolist() == [100, 200, 300, 400]
    assert scores.steps_to(2.5, 2) == 300
    assert scores.steps_to(4.0, 2) is None


def test_a_run_in_training_has_what_is_known_so_far(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [1.0, 2.0], state="running")
    (run / "metrics.jsonl").unlink()
    scores = read_scores(run, "score")
    assert (scores.env_steps, scores.cpu_s, scores.is_finished) == (200, None, False)
    with pytest.raises(RunFolderError, match="no times yet"):
        scores.places("cpu_s")
    with pytest.raises(RunFolderError, match="no finished episodes"):
        read_scores(make_run(tmp_path / "b", []), "score")


def test_the_evaluation_of_the_job_is_read(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [1.0, 2.0])
    assert read_scores(run, "score").evaluation is None
    put_result(run, 5.5, episodes=30)
    assert read_scores(run, "score").evaluation == EvalScore(5.5, 30)
    assert read_scores(run, "return").evaluation == EvalScore(55.0, 30)


def test_an_evaluation_from_before_the_run_was_trained_further_does_not_count(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "a", [1.0, 2.0])
    put_result(run, 5.5, env_steps=100)
    assert read_scores(run, "score").evaluation is None


def test_the_final_evaluation_of_brisk_train_counts_if_there_is_no_job(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [1.0, 2.0])
    facts = {"final_score": 9.0, "final_return": 99.0, "final_episodes": 50}
    RunDir(run).record({**facts, "final_env_steps": 200})
    assert read_scores(run, "score").evaluation == EvalScore(9.0, 50)
    assert read_scores(run, "return").evaluation == EvalScore(99.0, 50)
    put_result(run, 7.0)
    assert read_scores(run, "score").evaluation == EvalScore(7.0, 100)


@pytest.mark.parametrize("at", [100, "many", None])
def test_a_final_evaluation_of_another_moment_does_not_count(tmp_path: Path, at: JSON) -> None:
    run = make_run(tmp_path / "a", [1.0, 2.0])
    RunDir(run).record({"final_score": 9.0, "final_episodes": 50, "final_env_steps": at})
    assert read_scores(run, "score").evaluation is None


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"result": 3}', '{"result": {"score": "high"}}', '{"result": {}}']
)
def test_a_damaged_result_counts_as_none(tmp_path: Path, content: str) -> None:
    run = make_run(tmp_path / "a", [1.0])
    (run / "result.json").write_text(content)
    assert read_scores(run, "score").evaluation is None


@pytest.mark.parametrize("name", ["metrics.jsonl", "status.json", "episodes.csv"])
def test_damaged_logs_are_named(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path / "a", [1.0])
    (run / name).write_text("{]\n" * 3)
    with pytest.raises(RunFolderError, match="cannot be read"):
        read_scores(run, "score")
