"""kill -9 at random moments, then resume: the parameters are those of an uninterrupted run."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from briskrl.training.loop import resume, train
from briskrl.training.recorder import RunRecorder
from tests.chaos.killed_runs import metric_rows
from tests.training.runs import fused_config, policy_hash

KILLS = 2
"""`make chaos` kills 25 times per case."""
RUNS = [
    pytest.param("snake", {}, "dqn", 60_000, marks=pytest.mark.slow),
    ("snake", {}, "rainbow", 60_000),
    pytest.param("snake", {}, "ppo", 120_000, marks=pytest.mark.slow),
    pytest.param("snake", {}, "a2c", 120_000, marks=pytest.mark.slow),
    ("gym:CartPole-v1", {"backend": "sync"}, "ppo", 80_000),
    ("gym:CartPole-v1", {"backend": "compiled"}, "a2c", 120_000),
]
RUN = """
import json
import sys
from tests.training.runs import fused_config
from briskrl.training.loop import resume, train
run_dir, how, options = sys.argv[1:]
if how == "train":
    train(fused_config(run_dir, checkpoint_steps=1600, **json.loads(options)))
else:
    resume(run_dir)
"""


def launch(run_dir: Path, **options: Any) -> subprocess.Popen[bytes]:
    # A run that was killed before it wrote its config cannot be resumed.
    how = "resume" if (run_dir / "config.toml").exists() else "train"
    args = [str(run_dir), how, json.dumps(options)]
    return subprocess.Popen([sys.executable, "-c", RUN, *args])


def newest(run_dir: Path) -> str:
    latest = run_dir / "checkpoints" / "LATEST"
    return latest.read_text() if latest.exists() else ""


def wait_for_progress(process: subprocess.Popen[bytes], run_dir: Path, before: str) -> None:
    """Return when a new checkpoint is there, so that repeated kills cannot stall the run."""
    while newest(run_dir) == before:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.002)


@pytest.mark.parametrize(("env", "settings", "preset", "steps"), RUNS)
def test_a_run_killed_at_random_moments_resumes_bit_identically(
    tmp_path: Path, env: str, settings: dict[str, Any], preset: str, steps: int
):
    options = {"env": env, "env_config": settings, "preset": preset, "steps": steps}
    assert launch(tmp_path / "whole", **options).wait() == 0
    moments = random.Random(preset)
    run_dir = tmp_path / "killed"
    for _ in range(KILLS):
        before = newest(run_dir)
        process = launch(run_dir, **options)
        wait_for_progress(process, run_dir, before)
        time.sleep(moments.uniform(0.0, 0.08))
        process.kill()
        assert process.wait() == -9
    assert launch(run_dir, **options).wait() == 0
    assert policy_hash(run_dir) == policy_hash(tmp_path / "whole")
    whole = (tmp_path / "whole" / "episodes.csv").read_bytes()
    assert (run_dir / "episodes.csv").read_bytes() == whole


class Crash(Exception):  # noqa: N818
    """Ends a run without saving it."""


@pytest.mark.parametrize("preset", ["rainbow", "ppo"])
def test_a_resumed_run_logs_the_same_rows(tmp_path: Path, preset: str):
    def crash(recorder: RunRecorder) -> None:
        if recorder.trainer.counters.env_steps > 1700:
            raise Crash

    # A row in every iteration; checkpoints fall between the updates of PPO.
    options = {"log_seconds": 1e-6, "checkpoint_steps": 500, "steps": 2900}
    train(fused_config(tmp_path / "whole", preset, **options))
    with pytest.raises(Crash):
        train(fused_config(tmp_path / "crashed", preset, **options), hooks=[crash])
    resume(tmp_path / "crashed")
    assert metric_rows(tmp_path / "crashed") == metric_rows(tmp_path / "whole")


@pytest.mark.parametrize("preset", ["rainbow", "ppo"])
def test_a_run_that_is_moved_and_resumed_ten_times_ends_like_an_uninterrupted_one(
    tmp_path: Path, preset: str
):
    steps, parts = 6_600, 11
    train(fused_config(tmp_path / "whole", preset, steps=steps))
    run_dir = tmp_path / "part-1"
    train(fused_config(run_dir, preset, steps=steps // parts))
    for part in range(2, parts + 1):
        moved = tmp_path / f"folder {part}" / f"part-{part}"
        moved.parent.mkdir()
        run_dir = run_dir.rename(moved)
        resume(run_dir, steps=part * steps // parts)
    assert policy_hash(run_dir) == policy_hash(tmp_path / "whole")
    whole = (tmp_path / "whole" / "episodes.csv").read_bytes()
    assert (run_dir / "episodes.csv").read_bytes() == whole
