"""The serial executor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from briskrl.cluster.job import (
    JobCancelled,
    JobContext,
    JobDone,
    JobFailed,
    JobProgress,
    JobRetried,
    JobStarted,
    JobStopped,
)
from briskrl.cluster.serial import SerialExecutor
from briskrl.core.errors import BriskError


@dataclass(frozen=True)
class Counting:
    """Reports every number below a limit, and then fails or returns."""

    name: str
    limit: int = 3
    error: Exception | None = None
    failures: int = 99
    """Attempts that fail."""
    num_cpus: int = 1
    num_gpus: float = 0.0

    def run(self, context: JobContext):
        for number in range(self.limit):
            assert context.should_stop is not None
            if context.should_stop():
                raise JobStopped
            context.report({"number": number})
            context.report({})
        attempts = context.folder / "attempts"
        count = int(attempts.read_text()) + 1 if attempts.exists() else 1
        attempts.write_text(str(count))
        if self.error is not None and count <= self.failures:
            raise self.error
        return {"limit": self.limit}


def events_of(executor: SerialExecutor) -> list[object]:
    found = []
    while (event := executor.wait()) is not None:
        found.append(event)
    return found


@pytest.fixture
def heard():
    return []


@pytest.fixture
def executor(tmp_path: Path, heard):
    return SerialExecutor(tmp_path, heard.append)


def test_jobs_run_in_their_order_and_report_to_the_listener(executor, heard, tmp_path):
    executor.submit(Counting("jobs/a", 2))
    executor.submit(Counting("jobs/b", 1))
    kinds = [(type(event), event.name) for event in events_of(executor)]
    assert kinds == [
        (JobStarted, "jobs/a"),
        (JobDone, "jobs/a"),
        (JobStarted, "jobs/b"),
        (JobDone, "jobs/b"),
    ]
    assert heard == [
        JobProgress("jobs/a", {"number": 0}),
        JobProgress("jobs/a", {"number": 1}),
        JobProgress("jobs/b", {"number": 0}),
    ]
    assert (tmp_path / "jobs/a").is_dir()


def test_an_error_costs_one_retry(executor):
    executor.submit(Counting("a", error=ValueError("no luck"), failures=1))
    kinds = [type(event) for event in events_of(executor)]
    assert kinds == [JobStarted, JobRetried, JobStarted, JobDone]


def test_a_second_error_ends_the_job(executor):
    executor.submit(Counting("a", error=ValueError("no luck")))
    *_, last = events_of(executor)
    assert last == JobFailed("a", "ValueError: no luck")


def test_a_hopeless_job_is_not_tried_again(executor):
    executor.submit(Counting("a", error=BriskError("wrong setting")))
    assert [type(event) for event in events_of(executor)] == [JobStarted, JobFailed]


def test_the_listener_may_cancel_the_running_job(tmp_path):
    def listen(event: JobProgress) -> None:
        heard.append(event.values["number"])
        if event.values["number"] == 1:
            executor.cancel(event.name)

    heard: list[int] = []
    executor = SerialExecutor(tmp_path, listen)
    executor.submit(Counting("a", 5))
    assert events_of(executor)[-1] == JobCancelled("a")
    assert heard == [0, 1]


def test_a_waiting_job_can_be_cancelled(executor):
    executor.submit(Counting("a"))
    executor.cancel("a")
    assert events_of(executor) == [JobCancelled("a")]


def test_a_job_that_has_begun_can_be_cancelled_before_it_runs(executor, heard):
    executor.submit(Counting("a"))
    assert isinstance(executor.wait(), JobStarted)
    executor.cancel("a")
    assert events_of(executor) == [JobCancelled("a")]
    assert heard == []


def test_a_name_is_used_once(executor):
    executor.submit(Counting("a"))
    with pytest.raises(BriskError, match="submitted before"):
        executor.submit(Counting("a"))


def test_closing_forgets_what_has_not_run(executor):
    executor.submit(Counting("a"))
    executor.close()
    assert executor.wait() is None
