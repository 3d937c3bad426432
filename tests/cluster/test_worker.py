"""One job in a process: its outcome, its log, and signals at any moment."""

from __future__ import annotations

import os
import pickle
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from briskrl import __version__
from briskrl.cluster.job import JobContext, JobStopped
from briskrl.cluster.messages import Order, Raised, Returned, Stopped
from briskrl.cluster.worker import run_order
from briskrl.core.types import JSON
from tests.cluster import jobs


def order_of(job: Any, folder: Path, **changes: Any) -> Order:
    order = Order(__version__, pickle.dumps(job), job.name, str(folder / job.name))
    return replace(order, **changes)


def run(job: Any, folder: Path, **changes: Any) -> Any:
    """The outcome of a job in this process."""
    return run_order(order_of(job, folder, **changes), [].append)


def test_a_result_is_returned(tmp_path: Path):
    outcome = run(jobs.Square("job", number=5), tmp_path)
    assert isinstance(outcome, Returned)
    assert outcome.result["square"] == 25


def test_another_version_of_briskrl_is_refused_for_good(tmp_path: Path):
    outcome = run(jobs.Square("job"), tmp_path, version="0.0.1")
    assert isinstance(outcome, Raised)
    assert outcome.hopeless
    assert f"has briskrl {__version__}, and the driver has 0.0.1" in outcome.cause
    assert not (tmp_path / "job").exists()


def test_a_class_that_the_worker_cannot_import_is_explained(tmp_path: Path):
    # The length of the name is part of the pickle.
    pickled = pickle.dumps(jobs.Square("job")).replace(b"Square", b"Sphere")
    order = replace(order_of(jobs.Square("job"), tmp_path), job=pickled)
    outcome = run_order(order, [].append)
    assert isinstance(outcome, Raised)
    assert outcome.hopeless
    assert "Define its class in a module" in outcome.cause


@pytest.mark.parametrize(
    ("how", "text", "hopeless"),
    [
        (jobs.raise_bug, "RuntimeError: a bug", False),
        (jobs.use_up_memory, "MemoryError: ", False),
        (jobs.raise_user_error, "this cannot work", True),
        (jobs.fill_disk, "No space left on device", False),
    ],
)
def test_errors_are_outcomes(tmp_path, how, text, hopeless):
    outcome = run(jobs.Fails("job", how), tmp_path)
    assert isinstance(outcome, Raised)
    assert text in outcome.cause
    assert outcome.hopeless == hopeless


def test_sigterm_before_the_job_begins_stops_it(tmp_path: Path):
    order = order_of(jobs.Square("job", seconds=60.0), tmp_path)
    outcome = run_order(order, [].append, begin=lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert outcome == Stopped(clean=False)


@dataclass(frozen=True)
class Stops:
    """Is stopped while it reports; a second signal arrives while it saves."""

    name: str
    num_cpus: int = 1
    num_gpus: float = 0.0

    def run(self, context: JobContext) -> dict[str, JSON]:
        try:
            context.report({"first": True})
            time.sleep(60)
        except JobStopped:
            os.kill(os.getpid(), signal.SIGTERM)
            (context.folder / "saved").write_text("yes")
            raise
        return {}


def test_a_stop_waits_for_a_message_and_a_second_one_has_no_effect(tmp_path: Path):
    sent: list[object] = []

    def report(values: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
        sent.append(values)

    assert run_order(order_of(Stops("job"), tmp_path), report) == Stopped(clean=False)
    assert sent == [{"first": True}]
    assert (tmp_path / "job" / "saved").read_text() == "yes"


def test_the_handler_of_the_process_is_back_after_the_job(tmp_path: Path):
    before = signal.getsignal(signal.SIGTERM)
    run(jobs.Square("job"), tmp_path)
    run(jobs.Fails("bad", jobs.raise_bug), tmp_path)
    assert signal.getsignal(signal.SIGTERM) == before
