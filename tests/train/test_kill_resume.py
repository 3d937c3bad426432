"""kill -9 at random moments, then resume: the parameters are those of an uninterrupted run."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest

from tests.train.runs import policy_hash

KILLS = 5
STEPS = "24000"
TRAIN = """
import sys
from tests.train.runs import small_config
from briskrl.train.loop import resume, train
preset, run_dir, how, steps = sys.argv[1:]
if how == "train":
    train(small_config(run_dir, preset, steps=int(steps), checkpoint_steps=800))
else:
    resume(run_dir)
"""


def launch(preset, run_dir, how):
    return subprocess.Popen([sys.executable, "-c", TRAIN, preset, str(run_dir), how, STEPS])


def survives_until(process, seconds) -> bool:
    try:
        process.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        return True


@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_a_run_killed_at_random_moments_resumes_to_the_same_bits(tmp_path, preset):
    begin = time.monotonic()
    assert launch(preset, tmp_path / "whole", "train").wait() == 0
    duration = time.monotonic() - begin
    moments = random.Random(preset)
    run_dir = tmp_path / "killed"
    process = launch(preset, run_dir, "train")
    kills = 0
    while kills < KILLS:
        # Later launches have less left to do, so their moments are drawn from a shorter span.
        if not survives_until(process, moments.uniform(0.35, 0.9) * duration * (1 - 0.1 * kills)):
            break
        process.kill()
        process.wait()
        kills += 1
        process = launch(preset, run_dir, "resume" if run_dir.exists() else "train")
    assert process.wait() == 0
    assert kills >= 3
    assert policy_hash(run_dir) == policy_hash(tmp_path / "whole")
    assert (run_dir / "episodes.csv").read_bytes() == (
        tmp_path / "whole" / "episodes.csv"
    ).read_bytes()
