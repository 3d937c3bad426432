"""The policy that is loaded is that of the newest checkpoint."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from briskrl.core.errors import RunFolderError
from briskrl.core.types import State
from briskrl.training.storage.checkpoint import Checkpointer, RunState, list_checkpoints
from briskrl.training.storage.policy_io import DESCRIPTION, MODEL
from briskrl.training.storage.run_dir import RunDir


class Writer:
    """Saves states whose numbers are the step, as a run does."""

    def __init__(self, path: Path, *, describes: bool = True) -> None:
        self.run = RunDir.create(path, env="snake", algo="dqn", seed=0, config_toml="")
        self.checkpointer = Checkpointer(self.run.checkpoints, keep=2)
        self.describes = describes

    def save_checkpoint(self, step: int) -> None:
        states = {MODEL: self.model(step)}
        if self.describes:
            states[DESCRIPTION] = State({}, self.description(step))
        self.checkpointer.save(step, RunState(states, {"env_steps": step}))

    def save_policy(self, step: int) -> None:
        self.run.save_policy(self.model(step), self.description(step))

    def save(self, step: int) -> None:
        self.save_checkpoint(step)
        self.save_policy(step)

    def model(self, step: int) -> State:
        return State({"w": np.full(5, step, np.float32)}, {"step": step})

    def description(self, step: int) -> dict[str, object]:
        return {"env": "snake", "env_steps": step}


@pytest.fixture(params=[True, False], ids=["described", "older version"])
def writer(tmp_path, request):
    return Writer(tmp_path / "run", describes=request.param)


def load_step(path: Path) -> int:
    """The step of the policy that is loaded; its parts must belong together."""
    state, description = RunDir.open(path).load_policy_files()
    step = description["env_steps"]
    assert state.arrays["w"].tolist() == [step] * 5
    assert state.scalars == {"step": step}
    assert description == {"env": "snake", "env_steps": step}
    return step


def written_step(path: Path) -> int:
    """The step of the policy in its folder."""
    checkpoints = path / "checkpoints"
    checkpoints.rename(path / "away")
    try:
        return load_step(path)
    finally:
        (path / "away").rename(checkpoints)


def test_a_policy_older_than_the_checkpoint_is_loaded_from_there_and_repaired(writer):
    writer.save(1)
    writer.save_checkpoint(2)
    path = writer.run.path
    assert written_step(path) == 1
    writer.run.close()
    assert load_step(path) == 2
    assert written_step(path) == 2


def test_a_run_that_is_being_written_is_not_repaired_by_readers(writer):
    writer.save(1)
    writer.save_checkpoint(2)
    assert load_step(writer.run.path) == 2
    assert written_step(writer.run.path) == 1


def test_a_folder_that_cannot_be_written_is_still_played(writer, tmp_path):
    writer.save(1)
    writer.save_checkpoint(2)
    writer.run.close()
    lock, victim = writer.run.path / "lock", tmp_path / "victim"
    victim.write_text("not ours")
    lock.unlink()
    lock.symlink_to(victim)
    assert load_step(writer.run.path) == 2
    assert victim.read_text() == "not ours"


def test_a_missing_policy_is_loaded_from_the_checkpoint(tmp_path):
    writer = Writer(tmp_path / "run")
    writer.save_checkpoint(3)
    writer.run.close()
    assert load_step(writer.run.path) == 3
    assert written_step(writer.run.path) == 3


def test_without_a_description_a_missing_policy_needs_a_resume(tmp_path):
    writer = Writer(tmp_path / "run", describes=False)
    writer.save_checkpoint(3)
    with pytest.raises(RunFolderError, match="brisk resume"):
        RunDir.open(writer.run.path).load_policy_files()


@pytest.mark.parametrize("name", ["model.safetensors", "state.json", "MANIFEST.json"])
def test_a_damaged_checkpoint_is_no_source_of_the_policy(writer, name):
    for step in (1, 2):
        writer.save(step)
    writer.save_checkpoint(3)
    writer.run.close()
    file = list_checkpoints(writer.run.checkpoints)[0] / name
    file.write_bytes(file.read_bytes()[:-1])
    assert load_step(writer.run.path) == 2


def test_a_policy_outlives_its_checkpoint(writer):
    for step in (1, 2):
        writer.save(step)
    writer.run.close()
    newest = list_checkpoints(writer.run.checkpoints)[0]
    newest.rename(newest.with_name("elsewhere"))
    assert load_step(writer.run.path) == 2


def save_and_die(writer: Writer, step: int, operations: int) -> bool:
    """Save in a forked child that dies before its k-th file operation; returns whether it died."""
    child = os.fork()
    if child == 0:
        left = operations

        def die(event: str, args: tuple[object, ...]) -> None:
            nonlocal left
            left -= event == "open" or event.startswith(("os.", "shutil."))
            if left < 0:
                os._exit(9)

        os.fsync = lambda descriptor: None
        sys.addaudithook(die)
        writer.save(step)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_the_policy_belongs_to_the_newest_checkpoint_whenever_the_writer_is_killed(tmp_path):
    steps = []
    died = True
    while died:
        writer = Writer(tmp_path / str(len(steps)))
        writer.save(1)
        died = save_and_die(writer, 2, operations=len(steps))
        writer.run.close()
        newest = int(list_checkpoints(writer.run.checkpoints)[0].name.removeprefix("step_"))
        steps.append(load_step(writer.run.path))
        assert steps[-1] == newest == written_step(writer.run.path)
    assert steps == sorted(steps)
    assert steps.count(1) >= 5
    assert steps.count(2) >= 10
