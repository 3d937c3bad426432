"""Checkpoint and policy are one commit.

Whenever a run is killed, evaluation plays the policy of its newest checkpoint, and a resume ends
with the policy of an uninterrupted run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from briskrl.core.errors import ConfigError
from briskrl.training.evaluate import evaluate
from briskrl.training.loop import resume
from briskrl.training.storage.checkpoint import list_checkpoints
from briskrl.training.storage.run_dir import RunDir
from tests.training.runs import policy_hash
from tests.training.snapshot_process import STEPS

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The uninterrupted run, and its folder as kills at every moment of its last save leave it."""
    folder = tmp_path_factory.mktemp("killed")
    run, copies = folder / "run", folder / "copies"
    command = [sys.executable, "-m", "tests.training.snapshot_process", str(run), str(copies)]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return run, sorted(copies.iterdir())


def newest(run: Path) -> Path:
    return list_checkpoints(run / "checkpoints")[0]


def is_committed(run: Path) -> bool:
    return newest(run).name == f"step_{STEPS:012d}"


def loaded(run: Path) -> tuple[dict[str, np.ndarray], int]:
    state, description = RunDir.open(run).load_policy_files()
    return state.arrays, description["env_steps"]


def test_evaluation_plays_the_policy_of_the_newest_checkpoint_whenever_the_run_was_killed(
    killed, tmp_path
):
    run, copies = killed
    final = policy_hash(run)
    stale = 0
    for copy in copies:
        place = Path(shutil.copytree(copy, tmp_path / copy.name))
        behind = is_committed(place) and policy_hash(place) != final
        stale += behind
        arrays, step = loaded(place)
        wanted = load_file(newest(place) / "model.safetensors")
        assert {name: array.tobytes() for name, array in arrays.items()} == {
            name: array.tobytes() for name, array in wanted.items()
        }, copy.name
        assert f"step_{step:012d}" == newest(place).name
        # Loading has repaired the folder for those who read its files themselves.
        assert (policy_hash(place) == final) == is_committed(place), copy.name
    # Between the rename that commits the checkpoint and that of the policy's weights.
    assert stale >= 8
    assert sum(not is_committed(copy) for copy in copies) >= 10


def test_a_resume_refused_for_its_budget_has_repaired_the_policy(killed, tmp_path):
    run, copies = killed
    stale = [c for c in copies if is_committed(c) and policy_hash(c) != policy_hash(run)]
    for copy in (stale[0], stale[-1]):
        place = Path(shutil.copytree(copy, tmp_path / copy.name))
        with pytest.raises(ConfigError, match="reached its budget"):
            resume(place)
        assert policy_hash(place) == policy_hash(run)
        assert evaluate(place, episodes=4) == evaluate(run, episodes=4)


def test_a_run_killed_before_the_commit_resumes_to_the_same_policy(killed, tmp_path):
    run, copies = killed
    unfinished = [copy for copy in copies if not is_committed(copy)]
    for copy in (unfinished[0], unfinished[-1]):
        place = Path(shutil.copytree(copy, tmp_path / copy.name))
        resume(place)
        assert policy_hash(place) == policy_hash(run)
        assert (place / "episodes.csv").read_bytes() == (run / "episodes.csv").read_bytes()
