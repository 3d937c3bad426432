"""The local executor keeps the contract, opens no port, and leaves no process behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from briskrl.cluster import local
from briskrl.cluster.executor import Executor
from briskrl.cluster.job import JobCancelled, JobDone, JobFailed, JobProgress
from briskrl.cluster.local import LocalExecutor
from briskrl.cluster.storage import open_store
from briskrl.core.errors import BriskError
from briskrl.core.processes import process_exists
from briskrl.training.loop import train
from tests.cluster import jobs
from tests.cluster.executor_contract import (
    PATIENCE_S,
    ExecutorContract,
    OpenExecutor,
    end_of,
    kinds,
    run_all,
    wait_for,
    wait_until,
)
from tests.cluster.process_tree import listening_sockets, tree
from tests.cluster.random_kills import STEPS_PER_KILL, kill_at_random
from tests.cluster.run_configs import long_config
from tests.training.disk_faults import mounts_allowed
from tests.training.runs import policy_hash

ROOT = Path(__file__).parents[2]
SHARED_MEMORY = Path("/dev/shm")


class TestLocalExecutor(ExecutorContract):
    @pytest.fixture
    def open_executor(self, storage: Path) -> Iterator[OpenExecutor]:
        with ExitStack() as stack:

            def open_one(
                *, slots: int = 2, retries: int = 3, job_timeout_s: float | None = None
            ) -> Executor:
                executor = LocalExecutor(
                    storage, slots=slots, retries=retries, job_timeout_s=job_timeout_s
                )
                return stack.enter_context(executor)

            yield open_one


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[LocalExecutor]:
    with LocalExecutor(tmp_path / "storage", slots=2) as opened:
        yield opened


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended; one that nobody waits for may stay listed."""
    if not process_exists(pid):
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_hundreds_of_jobs_reuse_processes_and_leak_no_descriptors(executor: LocalExecutor):
    run_all(executor, [jobs.Square(f"first-{n}", seconds=0.2) for n in range(2)])
    before = len(os.listdir("/proc/self/fd"))
    events = run_all(executor, [jobs.Square(f"job-{n}") for n in range(300)])
    results = [event.result for event in events if isinstance(event, JobDone)]
    assert len(results) == 300
    assert len(os.listdir("/proc/self/fd")) == before
    for pid in {result["pid"] for result in results}:
        counts = [result["descriptors"] for result in results if result["pid"] == pid]
        assert counts[-1] <= counts[0]
    assert len({result["pid"] for result in results}) <= 2


def test_a_job_that_was_just_submitted_can_be_cancelled(tmp_path: Path):
    # A signal that arrived between two jobs would have no effect, until the job is killed.
    with LocalExecutor(tmp_path, slots=1, cancel_s=10 * PATIENCE_S) as executor:
        run_all(executor, [jobs.Square("warm")])
        for number in range(6):
            executor.submit(jobs.Saves(f"job-{number}"))
            executor.cancel(f"job-{number}")
            wait_for(executor, JobCancelled, f"job-{number}")


def test_a_cancelled_job_that_does_not_stop_is_killed(tmp_path: Path):
    with LocalExecutor(tmp_path, slots=1, cancel_s=0.3) as executor:
        executor.submit(jobs.LeavesChild("stubborn", jobs.hang, heeds_sigterm=False))
        wait_for(executor, JobProgress, "stubborn")
        executor.cancel("stubborn")
        assert executor.wait(PATIENCE_S) == JobCancelled("stubborn")


def test_a_job_that_forks_ends_once_and_the_fork_takes_no_orders(executor: LocalExecutor):
    for number in range(5):
        events = run_all(executor, [jobs.Forks(f"forks-{number}")])
        assert kinds(events, f"forks-{number}") == ["JobStarted", "JobProgress", "JobDone"]
        assert end_of(events, f"forks-{number}").result["child"] > 0
    events = run_all(executor, [jobs.Square(f"after-{n}", number=n) for n in range(10)])
    assert [end_of(events, f"after-{n}").result["square"] for n in range(10)] == [
        n**2 for n in range(10)
    ]


@pytest.mark.parametrize("how", [jobs.kill_self, jobs.exit_at_once, jobs.hang])
def test_the_loss_of_a_job_with_children_is_noticed_and_ends_them(tmp_path: Path, how: Any):
    timeout_s = 3.0 if how is jobs.hang else None
    with LocalExecutor(tmp_path, slots=1, retries=0, job_timeout_s=timeout_s) as executor:
        executor.submit(jobs.LeavesChild("parent", how))
        events = wait_for(executor, JobFailed, "parent")
    assert kinds(events, "parent") == ["JobStarted", "JobProgress", "JobFailed"]
    child = int((tmp_path / "parent" / "child").read_text())
    wait_until(lambda: not is_running(child))


def test_closing_ends_what_finished_jobs_have_left_behind(tmp_path: Path):
    with LocalExecutor(tmp_path, slots=1) as executor:
        run_all(executor, [jobs.LeavesChild("parent", jobs.nothing)])
        child = int((tmp_path / "parent" / "child").read_text())
        assert is_running(child)
    wait_until(lambda: not is_running(child))


def test_messages_of_an_earlier_job_are_ignored(tmp_path: Path):
    with LocalExecutor(tmp_path, slots=1) as executor:
        run_all(executor, [jobs.LeavesThread("first")])
        events = run_all(executor, [jobs.Square("second", seconds=0.3)])
    assert kinds(events, "second") == ["JobStarted", "JobProgress", "JobDone"]
    assert {event.name for event in events} == {"second"}


def test_a_process_that_dies_while_it_is_idle_costs_no_job_anything(executor: LocalExecutor):
    events = run_all(executor, [jobs.Square("first")])
    os.kill(end_of(events, "first").result["pid"], signal.SIGKILL)
    wait_until(lambda: not is_running(end_of(events, "first").result["pid"]))
    events = run_all(executor, [jobs.Square("second")])
    assert kinds(events, "second") == ["JobStarted", "JobProgress", "JobDone"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_job_may_print_anything_in_any_locale(tmp_path: Path, monkeypatch, encoding: str):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    with LocalExecutor(tmp_path, slots=1) as executor:
        events = run_all(executor, [jobs.Prints("prints")])
    assert kinds(events, "prints") == ["JobStarted", "JobDone"]
    log = (tmp_path / "prints" / "job.log").read_bytes()
    for text in ("text: é → \\ud800", "error: é → \U0001f40d", "child: é"):
        assert text.encode() in log
    assert b"bytes: \xff\xfe" in log


def test_errors_are_in_the_log_of_their_own_job(tmp_path: Path):
    with LocalExecutor(tmp_path, slots=1, retries=0) as executor:
        run_all(executor, [jobs.Square("first"), jobs.Fails("bad", jobs.raise_bug)])
    assert "RuntimeError: a bug" in (tmp_path / "bad" / "job.log").read_text()
    assert "a bug" not in (tmp_path / "first" / "job.log").read_text()


def test_a_worker_with_another_version_is_refused_at_once(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(local, "__version__", "0.0.1")
    with LocalExecutor(tmp_path, slots=1) as executor:
        events = run_all(executor, [jobs.Square("job")])
    assert kinds(events, "job") == ["JobStarted", "JobFailed"]
    assert "the driver has 0.0.1" in end_of(events, "job").cause


def test_a_job_that_cannot_be_pickled_is_refused(executor: LocalExecutor):
    with pytest.raises(BriskError, match="cannot be pickled"):
        executor.submit(jobs.Returns("job", socket.socket()))
    assert executor.wait(0.0) is None


def test_a_folder_that_cannot_be_made_fails_the_job_alone(executor: LocalExecutor, tmp_path: Path):
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "file").write_text("")
    events = run_all(executor, [jobs.Square("file/job"), jobs.Square("good")])
    assert kinds(events, "file/job") == ["JobFailed"]
    assert "file/job" in end_of(events, "file/job").cause
    assert end_of(events, "good").result["square"] == 9


def test_a_second_signal_while_closing_ends_everything_at_once(tmp_path: Path):
    class Interrupted(Exception):  # noqa: N818
        pass

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    executor = LocalExecutor(tmp_path, slots=1)
    executor.submit(jobs.LeavesChild("stubborn", jobs.hang, heeds_sigterm=False))
    executor.submit(jobs.Square("waits"))
    wait_for(executor, JobProgress, "stubborn")
    worker = tree(os.getpid())[1:]
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(Interrupted):
            executor.close()
    finally:
        # A signal that comes later would end the whole suite.
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    wait_until(lambda: not any(map(is_running, worker)))
    assert {executor.wait(), executor.wait()} == {JobCancelled("stubborn"), JobCancelled("waits")}
    assert executor.wait() is None
    executor.close()


def test_jobs_see_the_gpus_that_they_were_given(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    with LocalExecutor(tmp_path, slots=3) as executor:
        with pytest.raises(BriskError, match="needs 3 GPUs, and this machine has 2"):
            executor.submit(jobs.Square("three", num_gpus=3))
        submitted = [jobs.Square(f"job-{n}", num_gpus=n % 2, seconds=0.1) for n in range(6)]
        events = run_all(executor, [*submitted, jobs.Square("both", num_gpus=2)])
    seen = [end_of(events, job.name).result["gpus"] for job in submitted]
    assert seen[::2] == [""] * 3
    assert set(seen[1::2]) <= {"GPU-a", "GPU-b"}
    assert end_of(events, "both").result["gpus"] == "GPU-a,GPU-b"


@pytest.mark.skipif(not mounts_allowed(), reason="mounting a small disk is not permitted here")
def test_a_job_on_a_full_disk_fails_with_the_cause_and_others_go_on(tmp_path: Path):
    command = ["unshare", "-m", sys.executable, "-m", "tests.cluster.full_disk", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    events = json.loads(result.stdout)
    ends = {event["name"]: event for event in events if event["kind"] in ("JobDone", "JobFailed")}
    assert ends["small/full"]["kind"] == "JobFailed"
    assert "No space left on device" in ends["small/full"]["cause"]
    assert ends["other"]["result"]["square"] == 9
    assert ends["last"]["result"]["square"] == 9
    assert len(ends) == 4


def test_a_job_continues_from_its_copy_on_another_machine(tmp_path: Path):
    store = open_store(f"file://{tmp_path}/store")
    job = jobs.Fails("a/b", jobs.kill_self, times=1)
    with LocalExecutor(tmp_path / "here", slots=1, store=store, retries=0) as executor:
        assert kinds(run_all(executor, [job]), "a/b") == ["JobStarted", "JobFailed"]
    shutil.rmtree(tmp_path / "here")
    with LocalExecutor(tmp_path / "there", slots=1, store=store) as executor:
        assert end_of(run_all(executor, [job]), "a/b").result == {"attempt": 2}


@dataclass
class Observed:
    """What happened when a driver was killed and started again."""

    listening: list[str]
    workers: list[int]
    left: list[str]
    results: dict[str, Any]
    expected: str


@pytest.fixture(scope="module")
def killed_driver(tmp_path_factory) -> Observed:
    root = tmp_path_factory.mktemp("driver")
    train(long_config(root / "whole"))
    before = set(SHARED_MEMORY.iterdir())
    process = start_driver(root / "jobs")
    assert process.stdout is not None
    seen: set[str] = set()
    while len(seen) < 2:
        seen.add(json.loads(process.stdout.readline())["training"])
    pids = tree(process.pid)
    listening = listening_sockets(pids)
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(is_running, pids)))
    left = [str(path) for path in set(SHARED_MEMORY.iterdir()) - before if is_own(path, pids)]
    output, _ = start_driver(root / "jobs").communicate(timeout=PATIENCE_S)
    results = json.loads(output.splitlines()[-1])
    return Observed(listening, pids[1:], left, results, policy_hash(root / "whole"))


def start_driver(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.cluster.driver", str(folder), "2"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def is_own(path: Path, pids: list[int]) -> bool:
    """Whether a file of the shared memory is one of these processes', and not of another test."""
    return any(str(pid) in path.name for pid in pids) or path.name.startswith("torch_")


def test_no_socket_listens_while_jobs_run(killed_driver: Observed):
    assert len(killed_driver.workers) >= 2
    assert killed_driver.listening == []


def test_a_listening_socket_would_be_found():
    before = set(listening_sockets([os.getpid()]))
    with socket.create_server(("127.0.0.1", 0)):
        assert len(set(listening_sockets([os.getpid()])) - before) == 1


def test_nothing_is_left_of_a_driver_that_was_killed(killed_driver: Observed):
    # The fixture has waited for the processes to end.
    assert not any(map(is_running, killed_driver.workers))
    assert killed_driver.left == []


def test_jobs_of_a_driver_that_was_killed_end_exactly_when_it_is_started_again(
    killed_driver: Observed,
):
    hashes = {result["model_sha256"] for result in killed_driver.results.values()}
    assert hashes == {killed_driver.expected}
    assert len(killed_driver.results) == 2


@pytest.mark.parametrize(
    "kills", [3, pytest.param(10, marks=[pytest.mark.chaos, pytest.mark.slow])]
)
def test_a_job_that_is_killed_at_random_moments_ends_with_the_same_bits(tmp_path: Path, kills: int):
    train(long_config(tmp_path / "whole", steps=STEPS_PER_KILL * (kills + 1)))
    with LocalExecutor(tmp_path / "jobs", slots=2, retries=kills) as executor:
        found = kill_at_random(executor, kills, lambda: tree(os.getpid())[1])
    assert found == (kills, policy_hash(tmp_path / "whole"))
    rows = (tmp_path / "whole" / "episodes.csv").read_bytes()
    assert (tmp_path / "jobs" / "run" / "episodes.csv").read_bytes() == rows
