"""What every executor promises. A test class of an executor inherits these tests.

It overrides the fixture `open_executor`, a function that opens an executor for a storage folder and
closes it after the test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import pytest

from briskrl.cluster.executor import Executor
from briskrl.cluster.job import (
    JobCancelled,
    JobDone,
    JobEvent,
    JobFailed,
    JobProgress,
    JobRetried,
    JobStarted,
)
from briskrl.cluster.run_job import Evaluation, RunJob
from briskrl.core.errors import BriskError
from briskrl.training.loop import train
from tests.cluster import jobs
from tests.training.runs import fused_config, policy_hash

PATIENCE_S = 300.0
"""How long a test waits for an event on a busy machine before it fails."""
ENDS = (JobDone, JobFailed, JobCancelled)


class OpenExecutor(Protocol):
    def __call__(
        self, *, slots: int = 2, retries: int = 3, job_timeout_s: float | None = None
    ) -> Executor: ...


def run_all(executor: Executor, submitted: Iterable[Any]) -> list[JobEvent]:
    """Submit jobs and return all events."""
    for job in submitted:
        executor.submit(job)
    events = []
    while (event := executor.wait(PATIENCE_S)) is not None:
        events.append(event)
    return events


def wait_for(executor: Executor, kind: type, name: str) -> list[JobEvent]:
    """Events up to the first one of this kind of the job."""
    events: list[JobEvent] = []
    while not (events and isinstance(events[-1], kind) and events[-1].name == name):
        event = executor.wait(PATIENCE_S)
        assert event is not None, f"no {kind.__name__} of {name} after {events}"
        events.append(event)
    return events


def kinds(events: Iterable[JobEvent], name: str) -> list[str]:
    """The kinds of the events of one job, in order."""
    return [type(event).__name__ for event in events if event.name == name]


def end_of(events: Iterable[JobEvent], name: str) -> Any:
    """The last event of a job, which is the only one that ends it."""
    own = [event for event in events if event.name == name]
    assert [isinstance(event, ENDS) for event in own] == [False] * (len(own) - 1) + [True]
    return own[-1]


class ExecutorContract:
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Path:
        return tmp_path / "storage"

    @pytest.fixture
    def open_executor(self, storage: Path) -> OpenExecutor:
        raise NotImplementedError

    def test_a_job_starts_reports_and_returns_its_result(self, open_executor: OpenExecutor):
        events = run_all(open_executor(), [jobs.Square("one", number=4)])
        assert kinds(events, "one") == ["JobStarted", "JobProgress", "JobDone"]
        started, progress, done = events
        assert isinstance(started, JobStarted)
        assert started.attempt == 1
        assert started.node
        assert isinstance(progress, JobProgress)
        assert progress.values == {"number": 4}
        assert isinstance(done, JobDone)
        assert done.result["square"] == 16

    def test_many_jobs_share_the_slots_and_all_return(self, open_executor: OpenExecutor):
        executor = open_executor(slots=2)
        submitted = [jobs.Square(f"job-{n}", number=n, seconds=0.05) for n in range(12)]
        events = run_all(executor, submitted)
        results = {job.name: end_of(events, job.name).result for job in submitted}
        assert [results[f"job-{n}"]["square"] for n in range(12)] == [n**2 for n in range(12)]
        assert most_at_once(results.values()) <= 2

    def test_a_job_with_two_cores_takes_two_slots(self, open_executor: OpenExecutor):
        executor = open_executor(slots=2)
        small = [jobs.Square(f"small-{n}", seconds=0.2) for n in range(4)]
        large = jobs.Square("large", seconds=0.2, num_cpus=2)
        events = run_all(executor, [*small[:2], large, *small[2:]])
        results = [end_of(events, job.name).result for job in (*small, large)]
        own = results[-1]
        assert own["threads"] == "2"
        for other in results[:-1]:
            assert other["end"] <= own["begin"] or own["end"] <= other["begin"]

    @pytest.mark.parametrize(
        "how", [jobs.kill_self, jobs.exit_at_once, jobs.raise_bug, jobs.use_up_memory]
    )
    def test_a_lost_attempt_costs_one_retry_and_nothing_else(
        self, open_executor: OpenExecutor, how: Callable[[], None]
    ):
        executor = open_executor(slots=2)
        others = [jobs.Square(f"other-{n}", number=n, seconds=0.1) for n in range(3)]
        events = run_all(executor, [jobs.Fails("bad", how), *others])
        assert [kind for kind in kinds(events, "bad") if kind != "JobProgress"] == [
            "JobStarted",
            "JobRetried",
            "JobStarted",
            "JobDone",
        ]
        assert end_of(events, "bad").result == {"attempt": 2}
        for job in others:
            assert kinds(events, job.name) == ["JobStarted", "JobProgress", "JobDone"]

    def test_a_job_that_is_lost_every_time_fails_with_the_cause(self, open_executor: OpenExecutor):
        executor = open_executor(retries=1)
        events = run_all(executor, [jobs.Fails("bad", jobs.kill_self, times=9)])
        assert kinds(events, "bad") == ["JobStarted", "JobRetried", "JobStarted", "JobFailed"]
        assert "SIGKILL" in end_of(events, "bad").cause

    def test_a_user_error_is_not_tried_again(self, open_executor: OpenExecutor):
        events = run_all(open_executor(), [jobs.Fails("bad", jobs.raise_user_error)])
        assert kinds(events, "bad") == ["JobStarted", "JobFailed"]
        assert end_of(events, "bad").cause == "this cannot work"

    def test_a_job_that_hangs_is_killed_and_tried_again(self, open_executor: OpenExecutor):
        executor = open_executor(job_timeout_s=5.0)
        events = run_all(executor, [jobs.Fails("bad", jobs.hang)])
        assert kinds(events, "bad") == ["JobStarted", "JobRetried", "JobStarted", "JobDone"]
        (retried,) = (event for event in events if isinstance(event, JobRetried))
        assert "5.0s" in retried.cause

    def test_an_empty_report_is_a_sign_of_life_and_no_event(self, open_executor: OpenExecutor):
        executor = open_executor(job_timeout_s=5.0)
        events = run_all(executor, [jobs.ShowsLife("long", seconds=8.0)])
        assert kinds(events, "long") == ["JobStarted", "JobDone"]

    def test_a_result_that_is_no_json_fails_the_job_alone(self, open_executor: OpenExecutor):
        submitted = [jobs.Returns("bad", jobs.kill_self), jobs.Square("good")]
        events = run_all(open_executor(retries=0), submitted)
        assert "JSON" in end_of(events, "bad").cause
        assert end_of(events, "good").result["square"] == 9

    def test_a_job_stopped_by_somebody_else_continues(self, open_executor: OpenExecutor):
        events = run_all(open_executor(), [jobs.Fails("bad", jobs.stop_self)])
        assert end_of(events, "bad").result == {"attempt": 2}

    def test_a_cancelled_job_saves_first(self, open_executor: OpenExecutor, storage: Path):
        executor = open_executor()
        executor.submit(jobs.Saves("long"))
        wait_for(executor, JobProgress, "long")
        executor.cancel("long")
        assert executor.wait(PATIENCE_S) == JobCancelled("long")
        assert executor.wait(0.0) is None
        assert (storage / "long" / "saved").read_text() == "yes"

    def test_jobs_that_wait_are_cancelled_at_once(self, open_executor: OpenExecutor):
        executor = open_executor(slots=1)
        executor.submit(jobs.Saves("first"))
        wait_for(executor, JobProgress, "first")
        executor.submit(jobs.Square("second"))
        executor.cancel("second")
        assert executor.wait(PATIENCE_S) == JobCancelled("second")
        executor.cancel("second")
        executor.cancel("unknown")
        executor.cancel("first")
        assert executor.wait(PATIENCE_S) == JobCancelled("first")

    def test_closing_lets_jobs_save_and_may_be_repeated(
        self, open_executor: OpenExecutor, storage: Path
    ):
        executor = open_executor()
        executor.submit(jobs.Saves("long"))
        wait_for(executor, JobProgress, "long")
        executor.close()
        executor.close()
        assert (storage / "long" / "saved").read_text() == "yes"
        with pytest.raises(BriskError, match="closed"):
            executor.submit(jobs.Square("late"))

    def test_a_name_can_be_submitted_once(self, open_executor: OpenExecutor):
        executor = open_executor()
        executor.submit(jobs.Square("same"))
        with pytest.raises(BriskError, match="same"):
            executor.submit(jobs.Square("same"))

    @pytest.mark.parametrize("name", ["", "/etc", "../up", "a/../../b", "a//b"])
    def test_a_name_stays_inside_the_storage(self, open_executor: OpenExecutor, name: str):
        with pytest.raises(BriskError, match="name of a job"):
            open_executor().submit(jobs.Square(name))

    def test_waiting_ends_after_the_timeout(self, open_executor: OpenExecutor):
        executor = open_executor()
        assert executor.wait() is None
        executor.submit(jobs.Saves("long"))
        wait_for(executor, JobProgress, "long")
        assert executor.wait(0.01) is None

    def test_output_of_all_attempts_is_in_the_log_of_the_job(
        self, open_executor: OpenExecutor, storage: Path
    ):
        run_all(open_executor(), [jobs.Fails("a/b", jobs.kill_self)])
        log = (storage / "a" / "b" / "job.log").read_text()
        assert "attempt 1" in log
        assert "attempt 2" in log

    def test_a_run_gives_the_model_of_the_same_run_in_this_process(
        self, open_executor: OpenExecutor, storage: Path, tmp_path: Path
    ):
        config = fused_config(tmp_path / "here")
        train(config)
        events = run_all(open_executor(), [RunJob("run", config, Evaluation(episodes=4))])
        result = end_of(events, "run").result
        assert result["model_sha256"] == policy_hash(tmp_path / "here")
        assert result["model_sha256"] == policy_hash(storage / "run")


def most_at_once(results: Iterable[Any]) -> int:
    """The largest number of jobs that ran at the same time."""
    spans = [(result["begin"], result["end"]) for result in results]
    return max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
