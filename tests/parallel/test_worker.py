"""A thread does one piece of work after another, and errors come back."""

from __future__ import annotations

import threading
import time

import pytest

from briskrl.parallel.worker import Worker


@pytest.fixture
def worker():
    made = Worker(7)
    yield made
    made.finish()
    made.leave()
    assert not made._thread.is_alive()


def test_work_is_done_in_a_thread_of_its_own_with_the_number(worker):
    seen = []
    worker.begin(lambda number: seen.append((number, threading.get_ident())))
    assert worker.finish() is None
    assert seen[0][0] == 7
    assert seen[0][1] != threading.get_ident()


def test_every_piece_is_done_once_asleep_or_awake(worker):
    seen = []
    for k in range(30):
        time.sleep(0.02 * (k % 3 == 0))
        worker.begin(seen.append)
        assert worker.finish() is None
        assert len(seen) == k + 1


def test_an_error_comes_back_once_and_work_goes_on(worker):
    def fail(number):
        raise ValueError(f"piece of {number}")

    worker.begin(fail)
    error = worker.finish()
    assert isinstance(error, ValueError)
    assert str(error) == "piece of 7"
    done = []
    worker.begin(done.append)
    assert worker.finish() is None
    assert done == [7]
