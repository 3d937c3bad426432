"""Threads run tasks or take part in the work of others, sleep in between and end when stopped."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest

from briskrl.parallel.thread_pool import ThreadPool, Worker


@pytest.fixture
def worker():
    made = Worker(7)
    yield made
    made.finish()
    made.stop()
    assert not made.is_alive


def test_a_task_runs_in_a_thread_of_its_own_with_the_number(worker):
    seen = []
    worker.begin(lambda number: seen.append((number, threading.get_ident())))
    assert worker.finish() is None
    assert seen[0][0] == 7
    assert seen[0][1] != threading.get_ident()


def test_every_task_runs_once_whether_the_thread_is_asleep_or_awake(worker):
    seen = []
    for k in range(30):
        time.sleep(0.02 * (k % 3 == 0))
        worker.begin(seen.append)
        assert worker.finish() is None
        assert len(seen) == k + 1


def test_an_error_comes_back_once_and_later_tasks_run(worker):
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


def wait_until(condition) -> None:
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    assert condition()


def test_threads_of_a_pool_work_when_woken_sleep_in_between_and_end():
    calls = [0, 0, 0]
    left = []

    def work(number):
        calls[number] += 1

    pool = ThreadPool(2, work, leave=lambda: left.append(True), name="brisk-test")
    threads = [t for t in threading.enumerate() if t.name.startswith("brisk-test-")]
    assert len(threads) == 2
    for round_ in range(1, 20):
        wait_until(lambda: min(calls[1:]) >= round_)  # noqa: B023
        time.sleep(0.002 * (round_ % 3))
        before = list(calls)
        time.sleep(0.002)
        # A thread that is awake may begin once more before it sleeps, but not again and again.
        assert max(calls[k] - before[k] for k in (1, 2)) <= 1
        while min(calls[1:]) <= round_:
            pool.wake()
            time.sleep(0.001)
    assert calls[0] == 0
    pool.stop()
    pool.stop()
    assert left
    assert not any(thread.is_alive() for thread in threads)


def test_a_worker_that_is_asleep_or_spinning_stops():
    for pause in (0.0, 0.05):
        worker = Worker(1)
        worker.begin(lambda number: None)
        worker.finish()
        time.sleep(pause)
        worker.stop()
        assert not worker.is_alive


def test_a_task_is_not_kept_alive_after_its_end():
    class Owner:
        def run(self, number):
            pass

    owner = Owner()
    gone = weakref.ref(owner)
    worker = Worker(1)
    worker.begin(owner.run)
    worker.finish()
    del owner
    gc.collect()
    assert gone() is None
    worker.stop()
