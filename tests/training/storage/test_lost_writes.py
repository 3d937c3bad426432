"""After a power cut that loses what was not synced, a run continues from its last checkpoint."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from briskrl.core.types import State
from briskrl.training.storage.atomic_files import sync_folder
from briskrl.training.storage.checkpoint import Checkpointer, list_checkpoints
from briskrl.training.storage.line_files import read_jsonl
from briskrl.training.storage.metrics import MetricLog
from briskrl.training.storage.run_dir import RunDir
from tests.training.storage.fake_memory import ChunkMemory, check_consistent, state_at
from tests.training.storage.lossy_disk import Mark, RecordedDisk, Sync

NUM_CUTS = 200
NUM_SAVES = 5


def save_run(disk: RecordedDisk) -> None:
    """A run that saves five checkpoints with its logs, and marks each when it is saved."""
    path = disk.path / "runs" / "mine"
    with RunDir.create(path, env="e", algo="a", seed=0, config_toml="x = 1\n") as run:
        log = MetricLog(run.path, flush_s=1e9)
        run.begin_session(seed=0, threads=1, exactness="bit-exact")
        checkpointer, memory = Checkpointer(run.checkpoints, keep=2), ChunkMemory()
        for step in range(1, NUM_SAVES + 1):
            log.metrics({"env_steps": step})
            state = state_at(step, memory)
            state.states["logs"] = State({}, {"offsets": log.offsets()})
            checkpointer.save(step, state)
            run.save_policy(state.states["model"], {"env_steps": step})
            disk.mark(step)
            run.write_status({"env_steps": step})
        log.close()


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    disk = RecordedDisk(tmp_path_factory.mktemp("recorded"))
    with disk.recording():
        save_run(disk)
    return disk


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def test_the_recording_misses_no_operation(disk, tmp_path):
    disk.whole(tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(disk.path)
    assert sum(isinstance(operation, Sync) for operation in disk.operations) > 50


def saved_before(disk: RecordedDisk, moment: int) -> int:
    """The newest step that was saved before an operation; 0 if none was."""
    marks = [op.value for op in disk.operations[:moment] if isinstance(op, Mark)]
    return max(marks, default=0)


def check_resumes(path: Path, finished: int) -> int:
    """Load a run as a resume does; returns the step, which must be `finished` or the next."""
    if not finished and not list_checkpoints(path / "checkpoints"):
        return 0
    memory = ChunkMemory()
    checkpointer = Checkpointer(path / "checkpoints", keep=2)
    saved = checkpointer.load()
    assert saved.notes == ()
    assert saved.step in (finished, finished + 1)
    checkpointer.load_memory(saved, memory)
    logs = saved.states.pop("logs")
    check_consistent(saved, memory)
    with MetricLog(path, flush_s=1) as log:
        log.truncate_to(logs.scalars["offsets"])
    rows = [row["env_steps"] for row in read_jsonl(path / "metrics.jsonl")]
    assert rows == list(range(1, saved.step + 1))
    return saved.step


def test_a_run_continues_from_the_old_or_the_new_checkpoint_after_a_power_cut(disk, tmp_path):
    rng = random.Random(1)
    steps = []
    for cut in range(NUM_CUTS):
        moment = rng.randrange(len(disk.operations) + 1)
        folder = tmp_path / str(cut)
        disk.after_power_cut(folder, moment, rng)
        steps.append(check_resumes(folder / "runs" / "mine", saved_before(disk, moment)))
    assert set(steps) == set(range(NUM_SAVES + 1))


def test_whatever_was_saved_survives_if_nothing_else_does(disk, tmp_path):
    for moment, operation in enumerate(disk.operations, start=1):
        if isinstance(operation, Mark):
            folder = tmp_path / str(moment)
            disk.after_power_cut(folder, moment, NothingSurvives())
            assert check_resumes(folder / "runs" / "mine", operation.value) == operation.value


class NothingSurvives(random.Random):
    def choice(self, values):
        return values[0]


def test_the_model_of_the_disk_loses_what_is_not_synced(tmp_path):
    """A check of the check: files written without a sync are lost, in part or as a whole."""
    (tmp_path / "disk").mkdir()
    disk = RecordedDisk(tmp_path / "disk")
    with disk.recording():
        for name in ("synced", "unsynced"):
            folder = disk.path / name
            folder.mkdir()
            with RunDir.create(folder / "run", env="e", algo="a", seed=0, config_toml="x = 1\n"):
                pass
        sync_folder(disk.path)
    found = set()
    for cut in range(40):
        disk.after_power_cut(tmp_path / str(cut), len(disk.operations), random.Random(cut))
        lock = tmp_path / str(cut) / "unsynced" / "run" / "lock"
        found.add(lock.read_bytes() if lock.exists() else None)
    assert len(found) > 1
