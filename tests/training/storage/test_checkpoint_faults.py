from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from briskrl.core.errors import StorageError
from briskrl.training.storage.checkpoint import Checkpointer, list_checkpoints, read_newest
from tests.training.storage.fake_memory import ChunkMemory, check_consistent, state_at

REPO = Path(__file__).resolve().parents[3]
NUM_KILLS = 12


def tmpfs_allowed() -> bool:
    if shutil.which("unshare") is None:
        return False
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(probe, capture_output=True).returncode == 0


def fill_disk(what: str, folder: Path, how: str) -> dict[str, object]:
    """Run fill_disk.py below a file-size limit or inside a disk of one megabyte."""
    command = [sys.executable, "-m", "tests.training.storage.fill_disk", what, str(folder), how]
    if how == "disk":
        if not tmpfs_allowed():
            pytest.skip("mounting a small disk is not permitted here")
        mount = shlex.join(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)])
        # A mount namespace of its own: the disk disappears with the process.
        command = ["unshare", "-m", "sh", "-c", f"{mount} && exec {shlex.join(command)}"]
    result = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


CAUSES = {"limit": "File too large", "disk": "No space left on device"}


def test_the_newest_checkpoint_is_complete_after_kills_at_random_moments(tmp_path):
    chance = random.Random(7)
    reached = 0
    for _ in range(NUM_KILLS):
        command = [sys.executable, "-m", "tests.training.storage.checkpoint_process", str(tmp_path)]
        with subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, text=True) as saver:
            assert saver.stdout is not None
            line = saver.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.08))
            saver.kill()
            reported = [int(text) for text in (line + saver.stdout.read()).split("\n")[:-1]]
        saved, memory = read_newest(tmp_path), ChunkMemory()
        assert saved.notes == ()
        # What was reported as saved is there; at most the save under way is ahead of it.
        assert reported[0] == reached + 1
        assert reported[-1] <= saved.step <= reported[-1] + 1
        Checkpointer(tmp_path, keep=2).load_memory(saved, memory)
        check_consistent(saved, memory)
        reached = saved.step
    assert reached >= NUM_KILLS


@pytest.mark.parametrize("how", CAUSES)
@pytest.mark.parametrize("what", ["checkpoint", "chunks"])
def test_a_full_disk_leaves_the_earlier_checkpoint_and_reports_it(tmp_path, what, how):
    result = fill_disk(what, tmp_path, how)
    message = str(result["message"])
    assert CAUSES[how] in message
    assert "It needs about 4.0 MB" in message
    assert "The earlier checkpoint step_000000000001 is intact." in message
    assert result["left"] == 1
    assert result["notes"] == []
    if how == "limit":
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".tmp-")]
        assert (tmp_path / "LATEST").read_text().strip() == result.get(
            "retried", "step_000000000001"
        )


@pytest.mark.parametrize("how", CAUSES)
def test_a_full_disk_stops_the_metrics_once_with_whole_lines(tmp_path, how):
    result = fill_disk("metrics", tmp_path, how)
    assert CAUSES[how] in str(result["message"])
    assert "metrics.jsonl" in str(result["message"])
    assert result["rows"] is True
    assert result["torn"] is False


@pytest.mark.parametrize("how", CAUSES)
def test_a_full_disk_leaves_the_earlier_policy(tmp_path, how):
    result = fill_disk("policy", tmp_path, how)
    assert CAUSES[how] in str(result["message"])
    assert result["weights"] == [1.0, 1.0, 1.0]
    assert result["kind"] == "small"


def test_a_folder_that_cannot_be_created_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    checkpointer = Checkpointer(tmp_path / "file" / "checkpoints", keep=2)
    with pytest.raises(StorageError, match=r"Not a directory.*There is no other"):
        checkpointer.save(1, state_at(1, ChunkMemory()))
    assert list_checkpoints(tmp_path / "file") == []


def test_an_interrupted_save_leaves_no_files(tmp_path):
    class Interrupted(ChunkMemory):
        def read_chunk(self, name):
            raise KeyboardInterrupt

    checkpointer = Checkpointer(tmp_path, keep=2)
    checkpointer.save(1, state_at(1, ChunkMemory()))
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        checkpointer.save(2, state_at(2, Interrupted()))
    assert sorted(os.listdir(tmp_path)) == before
    assert read_newest(tmp_path).step == 1


def save_and_die(folder: Path, operations: int) -> bool:
    """Save three checkpoints in a forked child that dies before its k-th file-system operation.

    Returns whether it died before it was done.
    """
    child = os.fork()
    if child == 0:
        left = operations

        def die(event: str, args: tuple[object, ...]) -> None:
            nonlocal left
            if event == "open" or event.startswith(("os.", "shutil.")):
                left -= 1
                if left < 0:
                    os._exit(9)

        # Waiting for the disk matters after a power cut, not after the death of a process.
        os.fsync = lambda descriptor: None
        sys.addaudithook(die)
        checkpointer, memory = Checkpointer(folder, keep=2), ChunkMemory()
        for step in (1, 2, 3):
            checkpointer.save(step, state_at(step, memory))
            (folder / f"saved_{step}").touch()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_a_kill_before_any_file_operation_loses_no_finished_checkpoint(tmp_path):
    operations = 0
    while save_and_die(folder := tmp_path / str(operations), operations):
        finished = len(list(folder.glob("saved_*")))
        if finished or list_checkpoints(folder):
            saved, memory = read_newest(folder), ChunkMemory()
            assert saved.notes == ()
            assert finished <= saved.step <= finished + 1
            Checkpointer(folder, keep=2).load_memory(saved, memory)
            check_consistent(saved, memory)
        operations += 1
    assert operations > 50
