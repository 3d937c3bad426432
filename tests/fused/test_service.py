"""Updates that another thread does on request are those that would be done here."""

from __future__ import annotations

import time

import numpy as np
import pytest

from briskrl.algos.config import DQN_PRESETS
from briskrl.fused.service.service import Service
from briskrl.algos.fused.values.kernels import update_values
from briskrl.core.clock import Clock
from briskrl.fused.team import Worker
from tests.algos import transitions


def learn(preset, between=None):
    """Parameters after updates of two batches in turn, by a service if there is a `between`.

    That is called with the service, the worker and a number before every request.
    """
    config = transitions.small(**{**DQN_PRESETS[preset], "net": (40, 24), "target_every": 7})
    env = transitions.spec()
    algo = transitions.make(config, env, engine="fused")
    batches = [transitions.random_batch(env, 6, 20, seed) for seed in range(2)]
    worker = Worker(1)
    service = Service(worker, update_values)
    for k in range(40):
        batch = batches[k % 2]
        if between is None:
            algo.update(batch, 1 + k % 6, Clock())
            continue
        between(service, worker, k)
        service.begin(algo.prepare(batch, 1 + k % 6, Clock()))
        assert service.finish()[0] > 0
        algo.conclude(batch, 1 + k % 6)
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


def test_batches_may_be_exchanged_for_others():
    config, env = transitions.small(), transitions.spec()
    served, plain = (transitions.make(config, env, engine="fused") for _ in range(2))
    worker = Worker(1)
    service = Service(worker, update_values)
    for k in range(9):
        batch = transitions.random_batch(env, 2, 20, seed=k)
        plain.update(batch, 2, Clock())
        service.begin(served.prepare(batch, 2, Clock()))
        service.finish()
        served.conclude(batch, 2)
    worker.leave()
    assert np.array_equal(transitions.parameters(served), transitions.parameters(plain))
    assert not worker._thread.is_alive()
