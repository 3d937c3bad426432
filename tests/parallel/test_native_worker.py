"""Updates that another thread does on request are those that would be done here."""

from __future__ import annotations

import time

import numpy as np
import pytest

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.algos.dqn.kernels.td_update import PREFETCH_ID, STARTED_ID
from briskrl.algos.dqn.kernels.updates import run_updates
from briskrl.compiler.packed_args import PackedArgs
from briskrl.core.counters import Counters
from briskrl.parallel.native_worker import NativeWorker
from briskrl.parallel.worker import Worker
from tests.algos import transitions
from tests.parallel import thread_kernels as works


def learn(preset, between=None):
    """Parameters after updates of two batches in turn, by a service if there is a `between`.

    That is called with the service, the worker and a number before every request.
    """
    config = transitions.small(**{**DQN_PRESETS[preset], "net": (40, 24), "target_every": 7})
    env = transitions.spec()
    algo = transitions.make(config, env, engine="fused")
    batches = [transitions.random_batch(env, 6, 20, seed) for seed in range(2)]
    worker = Worker(1)
    service = NativeWorker(worker)
    for k in range(40):
        batch = batches[k % 2]
        if between is None:
            algo.update(batch, 1 + k % 6, Counters())
            continue
        between(service, worker, k)
        service.begin(run_updates, algo.compiled_updates.prepare(batch, 1 + k % 6, Counters()))
        assert service.finish()[0] > 0
        algo.compiled_updates.finish(batch, 1 + k % 6)
    worker.leave()
    return transitions.parameters(algo)


def at_once(service, worker, k):
    """Ask as fast as possible."""


def after_a_while(service, worker, k):
    """Let the thread lose its patience, and fall asleep now and then."""
    time.sleep(0.001 * (k % 7) ** 2)


def closed(service, worker, k):
    """Give the worker something else to do in between."""
    if k % 3 == 0:
        done = []
        service.close()
        worker.begin(done.append)
        assert worker.finish() is None
        assert done == [1]


@pytest.mark.parametrize("between", [at_once, after_a_while, closed])
@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_a_service_changes_nothing(preset, between):
    assert np.array_equal(learn(preset, between), learn(preset))


@pytest.fixture
def announced():
    """An algorithm, a batch, a service that has begun with its two updates, and their number."""
    env = transitions.spec()
    algo = transitions.make(transitions.small(), env, engine="fused")
    batch = transitions.random_batch(env, 2, 20, seed=0)
    worker = Worker(1)
    service = NativeWorker(worker)
    # Somebody serves once something was asked for.
    service.begin(run_updates, algo.compiled_updates.prepare(batch, 1, Counters()))
    service.finish()
    algo.compiled_updates.finish(batch, 1)
    before = transitions.parameters(algo)
    engine = algo.engines.now
    rules = engine._plan_for(batch).context.params
    number, end = 0, time.monotonic() + 10
    while rules[STARTED_ID] < max(1, number) and time.monotonic() < end:
        # A thread that has lost its core serves no more until something is asked for.
        service.begin(run_updates, algo.compiled_updates.prepare(batch, 0, Counters()))
        service.finish()
        number = service.prefetch(run_updates, algo.compiled_updates.prepare(batch, 2, Counters()))
        engine.prefetch(batch, number)
        time.sleep(0.001)
    assert rules[STARTED_ID] == rules[PREFETCH_ID] == number
    assert np.array_equal(transitions.parameters(algo), before)
    yield algo, batch, service
    service.close()
    worker.leave()


def finish(algo, batch, service):
    """Parameters after the two updates."""
    service.begin(run_updates, algo.compiled_updates.prepare(batch, 2, Counters()))
    service.finish()
    algo.compiled_updates.finish(batch, 2)
    return transitions.parameters(algo)


def plain(batch, changed=None):
    """Parameters after the same updates without a service."""
    algo = transitions.make(transitions.small(), transitions.spec(), engine="fused")
    algo.update(batch, 1, Counters())
    if changed is not None:
        changed(algo)
    algo.update(batch, 2, Counters())
    return transitions.parameters(algo)


def test_updates_that_were_begun_come_out_the_same(announced):
    algo, batch, service = announced
    assert np.array_equal(finish(algo, batch, service), plain(batch))


def test_what_was_begun_is_used(announced):
    algo, batch, service = announced
    right = plain(batch)
    # The first gradient is known already, so that the first rewards no longer count.
    batch.reward[0] += 1
    assert np.array_equal(finish(algo, batch, service), right)


def test_what_was_begun_is_dropped_when_the_batch_changes(announced):
    algo, batch, service = announced
    first, other = batch.reward[0].copy(), 1 + batch.reward[0]
    algo.engines.now.forget()
    batch.reward[0] = other
    found = finish(algo, batch, service)
    batch.reward[0] = first

    def change(_):
        batch.reward[0] = other

    assert np.array_equal(found, plain(batch, change))


def test_what_was_begun_is_dropped_when_the_networks_change(announced):
    algo, batch, service = announced

    def grow(algo):
        state = algo.state()
        state["model"].arrays = {name: 1.5 * array for name, array in state["model"].arrays.items()}
        algo.load_state(state)

    grow(algo)
    assert np.array_equal(finish(algo, batch, service), plain(batch, grow))


def test_batches_may_be_exchanged_for_others():
    config, env = transitions.small(), transitions.spec()
    served, plain = (transitions.make(config, env, engine="fused") for _ in range(2))
    worker = Worker(1)
    service = NativeWorker(worker)
    for k in range(9):
        batch = transitions.random_batch(env, 2, 20, seed=k)
        plain.update(batch, 2, Counters())
        service.begin(run_updates, served.compiled_updates.prepare(batch, 2, Counters()))
        service.finish()
        served.compiled_updates.finish(batch, 2)
    worker.leave()
    assert np.array_equal(transitions.parameters(served), transitions.parameters(plain))
    assert not worker._thread.is_alive()


@pytest.fixture
def service():
    worker = Worker(1)
    made = NativeWorker(worker)
    yield made
    made.close()
    worker.leave()


def test_work_is_called_with_the_number_that_was_asked_for(service):
    numbers = np.zeros(1, np.int64)
    held = PackedArgs((numbers,))
    for number in range(1, 6):
        service.begin(works.add, held, number)
        service.finish()
    assert numbers[0] == 15


def test_work_that_is_no_longer_needed_is_done_once_or_never(service):
    numbers, done = np.zeros(1, np.int64), 0
    held = PackedArgs((numbers,))
    for k in range(200):
        time.sleep(0.004 * (k % 20 == 0))
        service.begin(works.add, held, 1)
        done += service.cancel_or_wait() > 0
        assert numbers[0] == done
    service.begin(works.add, held, 1000)
    service.finish()
    assert numbers[0] == done + 1000
