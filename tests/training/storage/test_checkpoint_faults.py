from __future__ import annotations

import errno
import json
import os
import random
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from briskrl.core.errors import StorageError
from briskrl.training.storage.checkpoint import Checkpointer, list_checkpoints, read_newest
from tests.training.disk_faults import mounts_allowed
from tests.training.storage.fake_memory import ChunkMemory, check_consistent, state_at
from tests.training.storage.syscall_kills import killed_before, tracing_allowed

REPO = Path(__file__).resolve().parents[3]
NUM_KILLS = 12


def fill_disk(what: str, folder: Path, how: str, *args: str) -> dict[str, Any]:
    """Run fill_disk.py below a file-size limit or inside a disk of one megabyte."""
    program = "tests.training.storage.fill_disk"
    command = [sys.executable, "-m", program, what, str(folder), how, *args]
    if how == "disk":
        if not mounts_allowed():
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
    assert "The newest checkpoint is step_000000000001, which is intact." in message
    assert result["left"] == 1
    assert result["notes"] == []
    if how == "limit":
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".tmp-")]
        assert (tmp_path / "LATEST").read_text().strip() == result.get(
            "retried", "step_000000000001"
        )


def test_the_free_space_is_reported_without_the_unfinished_files(tmp_path):
    result = fill_disk("checkpoint", tmp_path, "disk")
    assert float(result["free"]) > 0.5
    assert f"and {result['free']} MB are free" in result["message"]


@pytest.mark.parametrize("how", CAUSES)
def test_rows_wait_while_the_disk_is_full_and_are_written_in_order_later(tmp_path, how):
    result = fill_disk("metrics", tmp_path, how, "2000")
    assert CAUSES[how] in result["message"]
    assert "metrics.jsonl" in result["message"]
    assert result["calls"] == 1
    assert result["whole_before"]
    assert result["torn"] is False
    assert result["dropped"] == 0
    assert result["waiting"] == result["number"] - result["before"] > 2000
    assert result["after"] == list(range(result["number"]))


@pytest.mark.parametrize("how", CAUSES)
def test_when_too_many_rows_wait_the_oldest_are_dropped_and_counted(tmp_path, how):
    result = fill_disk("metrics", tmp_path, how, "20000")
    before, dropped = result["before"], result["dropped"]
    # A row has about a kilobyte, and eight megabytes may wait.
    assert 7_500 < result["waiting"] < 8_500
    assert dropped == result["number"] - before - result["waiting"] > 10_000
    assert result["torn"] is False
    newest = range(before + dropped, result["number"])
    assert result["after"] == [*range(before), *newest]


@pytest.mark.parametrize("how", CAUSES)
def test_a_full_disk_leaves_the_earlier_policy(tmp_path, how):
    result = fill_disk("policy", tmp_path, how)
    assert CAUSES[how] in str(result["message"])
    assert result["weights"] == [1.0, 1.0, 1.0]
    assert result["kind"] == "small"


def test_a_folder_that_cannot_be_created_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    checkpointer = Checkpointer(tmp_path / "file" / "checkpoints", keep=2)
    with pytest.raises(StorageError, match=r"Not a directory.*There is no checkpoint yet"):
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


def two_checkpoints(folder: Path) -> tuple[Checkpointer, ChunkMemory]:
    checkpointer, memory = Checkpointer(folder, keep=2), ChunkMemory()
    for step in (1, 2):
        checkpointer.save(step, state_at(step, memory))
    return checkpointer, memory


CALLS = ("open", "write", "fsync", "mkdir", "rename", "replace", "link", "unlink", "rmdir")
ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES)


class FailingCalls:
    """Lets the n-th file operation fail, once or from then on."""

    def __init__(self, monkeypatch) -> None:
        self.code = 0
        self.left = -1
        self.lasts = False
        self.failed = False
        for name in CALLS:
            monkeypatch.setattr(os, name, self.wrap(getattr(os, name)))

    def wrap(self, real):
        def call(*args, **kwargs):
            self.left -= 1
            if self.left == 0 or (self.lasts and self.left < 0 and self.failed):
                self.failed = True
                raise OSError(self.code, os.strerror(self.code))
            return real(*args, **kwargs)

        return call

    def arm(self, operation: int, code: int, *, lasts: bool) -> None:
        self.left, self.code, self.lasts, self.failed = operation, code, lasts, False

    def disarm(self) -> None:
        self.left, self.lasts, self.failed = -1, False, False


@pytest.mark.parametrize("lasts", [False, True])
def test_whichever_operation_fails_a_checkpoint_is_left_and_the_next_save_works(
    tmp_path, monkeypatch, lasts
):
    calls = FailingCalls(monkeypatch)
    # Waiting for the disk takes most of the time and changes nothing here.
    monkeypatch.setattr(os, "fsync", calls.wrap(lambda descriptor: None))
    errors = []
    for operation in range(1, 1000):
        folder, code = tmp_path / str(operation), ERRORS[operation % len(ERRORS)]
        checkpointer, memory = two_checkpoints(folder)
        state = state_at(3, memory)
        calls.arm(operation, code, lasts=lasts)
        try:
            checkpointer.save(3, state)
        except StorageError as error:
            errors.append((os.strerror(code), str(error)))
        done = not calls.failed
        calls.disarm()
        saved = read_newest(folder)
        assert saved.notes == ()
        assert saved.step in (2, 3)
        checkpointer.save(4, state_at(4, memory))
        saved, loaded = read_newest(folder), ChunkMemory()
        Checkpointer(folder, keep=2).load_memory(saved, loaded)
        assert saved.step == 4
        check_consistent(saved, loaded)
        assert not list(folder.glob(".tmp-*"))
        if done:
            break
    assert done
    assert len(errors) > 20
    for text, message in errors:
        assert text in message
        assert "step_000000000002, which is intact" in message


def test_a_kill_at_any_system_call_of_a_save_leaves_the_old_or_the_new_checkpoint(
    tmp_path, monkeypatch
):
    if not tracing_allowed():
        pytest.skip("tracing system calls is not permitted here")
    # Waiting for the disk matters after a power cut, not after the death of a process.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    found = []
    killed = True
    while killed:
        folder = tmp_path / str(len(found))
        checkpointer, memory = two_checkpoints(folder)
        state = state_at(3, memory)
        killed = killed_before(len(found) + 1, lambda: checkpointer.save(3, state))  # noqa: B023
        saved, loaded = read_newest(folder), ChunkMemory()
        assert saved.notes == ()
        Checkpointer(folder, keep=2).load_memory(saved, loaded)
        check_consistent(saved, loaded)
        found.append(saved.step)
    assert found == sorted(found)
    assert set(found) == {2, 3}
    assert len(found) > 60
