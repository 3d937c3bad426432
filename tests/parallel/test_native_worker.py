"""Updates that another thread does on request equal those of the calling thread."""

from __future__ import annotations

import time

import numpy as np
import pytest

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.algos.dqn.kernels.updates import run_updates
from briskrl.compiler.packed_args import PackedArgs
from briskrl.core.counters import Counters
from briskrl.parallel.native_worker import NativeWorker
from briskrl.parallel.thread_pool import Worker
from tests.algos import transitions
from tests.parallel import thread_kernels


def learn(preset, between=None):
    """Parameters after updates of two batches in turn, by a NativeWorker if there is a `between`.

    That is called with it, its worker and a number before every request.
    """
    config = transitions.small(**{**DQN_PRESETS[preset], "net": (40, 24), "target_every": 7})
    env = transitions.spec()
    algo = transitions.make(config, env, engine="fused")
    batches = [transitions.random_batch(env, 6, 20, seed) for seed in range(2)]
    worker = Worker(1)
    native = NativeWorker(worker)
    for k in range(40):
        batch = batches[k % 2]
        if between is None:
            algo.update(batch, 1 + k % 6, Counters())
            continue
        between(native, worker, k)
        native.begin(run_updates, algo.compiled_updates.prepare(batch, 1 + k % 6, Counters()))
        assert native.finish() > 0
        algo.compiled_updates.finish(batch, 1 + k % 6)
    worker.stop()
    return transitions.parameters(algo)


def at_once(native, worker, k):
    """Request as fast as possible."""


def after_a_while(native, worker, k):
    """Let the thread fall asleep now and then."""
    time.sleep(0.001 * (k % 7) ** 2)


def closed(native, worker, k):
    """Give the worker something else to do in between."""
    if k % 3 == 0:
        done = []
        native.close()
        worker.begin(done.append)
        assert worker.finish() is None
        assert done == [1]


@pytest.mark.parametrize("between", [at_once, after_a_while, closed])
@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_updates_of_a_native_worker_equal_those_of_the_calling_thread(preset, between):
    assert np.array_equal(learn(preset, between), learn(preset))


def test_batches_may_change_between_requests():
    config, env = transitions.small(), transitions.spec()
    served, plain = (transitions.make(config, env, engine="fused") for _ in range(2))
    worker = Worker(1)
    native = NativeWorker(worker)
    for k in range(9):
        batch = transitions.random_batch(env, 2, 20, seed=k)
        plain.update(batch, 2, Counters())
        native.begin(run_updates, served.compiled_updates.prepare(batch, 2, Counters()))
        native.finish()
        served.compiled_updates.finish(batch, 2)
    worker.stop()
    assert np.array_equal(transitions.parameters(served), transitions.parameters(plain))
    assert not worker.is_alive


@pytest.fixture
def native():
    worker = Worker(1)
    made = NativeWorker(worker)
    yield made
    made.close()
    worker.stop()


def test_work_is_called_with_the_requested_number(native):
    numbers = np.zeros(1, np.int64)
    packed = PackedArgs((numbers,))
    for number in range(1, 6):
        native.begin(thread_kernels.add, packed, number)
        native.finish()
    assert numbers[0] == 15


def test_canceled_work_is_done_once_or_never(native):
    numbers, done = np.zeros(1, np.int64), 0
    packed = PackedArgs((numbers,))
    for k in range(200):
        time.sleep(0.004 * (k % 20 == 0))
        native.begin(thread_kernels.add, packed, 1)
        done += native.cancel_or_wait() > 0
        assert numbers[0] == done
    native.begin(thread_kernels.add, packed, 1000)
    native.finish()
    assert numbers[0] == done + 1000
