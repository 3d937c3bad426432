"""Nothing is allocated after the first calls, and updates do not slow down."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from statistics import median
from time import thread_time

import numpy as np
import pytest
import torch

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.algos.ppo.config import PPO_PRESETS
from briskrl.core.counters import Counters
from briskrl.core.types import Decision
from tests.algos import rollouts, transitions
from tests.algos.ppo.test_fused_gradients import random_minibatch

VIEWS = 2_500
"""Bytes of the Python objects that describe arrays; any buffer here would be larger."""


def peak_growth(call: Callable[[], object], blocks: int = 15, times: int = 30) -> int:
    """The most memory that repeated calls hold at once, beyond what was held before.

    Python and numpy keep small objects for later, and the first calls fill those caches: so this is
    the least of several blocks, in each of which an allocation of every call would show.
    """
    call()
    gc.collect()
    tracemalloc.start()
    growth = []
    try:
        for _ in range(blocks):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(times):
                call()
            growth.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    return min(growth)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("preset", ["dqn", "per-dqn", "rainbow"])
def test_value_learning_allocates_no_arrays(preset, threads):
    env = transitions.spec(shape=(40,), mask=True)
    config = transitions.small(**DQN_PRESETS[preset], net=(64, 64))
    algo = transitions.make(config, env, engine="fused", threads=threads)
    batch = transitions.random_batch(env, 2, 256)
    obs, mask = batch.obs[0], batch.next_mask[0]
    decision = Decision(np.zeros(256, np.int64))
    assert peak_growth(lambda: algo.act(obs, mask, Counters(), decision)) < VIEWS
    assert peak_growth(lambda: algo.update(batch, 2, Counters())) < VIEWS


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("preset", PPO_PRESETS)
def test_policy_learning_allocates_no_arrays(preset, threads):
    env = rollouts.spec(shape=(40,), mask=True)
    options = {**PPO_PRESETS[preset], "net": (64, 64)}
    agent = rollouts.make(rollouts.config(**options), env, engine="fused", threads=threads)
    batch = random_minibatch(agent, env, 1024, seed=1)
    decision = Decision(np.zeros(1024, np.int64), np.zeros(1024, np.float32))
    values = np.zeros(1024, np.float32)
    engine = agent.engines.now
    assert peak_growth(lambda: agent.act(batch.obs, batch.mask, Counters(), decision)) < VIEWS
    assert peak_growth(lambda: agent.update(batch, Counters())) < VIEWS
    assert peak_growth(lambda: engine.values(batch.obs, values)) < VIEWS


def best_of(call: Callable[[], object]) -> float:
    begin = thread_time()
    call()
    return thread_time() - begin


def test_moments_that_have_decayed_to_denormals_do_not_slow_an_update():
    """Weights of 0 make every gradient 0, so that moments keep decaying."""
    env = transitions.spec(shape=(11,))
    algo = transitions.make(
        transitions.small(net=(128, 128), prioritized=True), env, engine="fused"
    )
    batch = transitions.random_batch(env, 10, 1)
    batch.weight[...] = 0
    adam = algo.model.optimizer.adam
    times: dict[float, list[float]] = {0.0: [], 1e-40: []}
    algo.update(batch, 10, Counters())
    for _ in range(30):
        for size, spent in times.items():
            adam.mean.fill_(size)
            adam.variance.fill_(size)
            assert float(adam.mean[0]) > 0 or size == 0
            spent.append(best_of(lambda: algo.update(batch, 10, Counters())))
    assert min(times[1e-40]) < 1.5 * min(times[0.0])


def test_denormals_are_flushed_within_an_update_and_not_beyond():
    algo = transitions.make(transitions.small(), engine="fused")
    batch = transitions.random_batch(transitions.spec(), 1)
    algo.model.optimizer.adam.mean.fill_(1e-40)
    batch.weight[...] = 0
    algo.update(batch, 1, Counters())
    assert not algo.model.optimizer.adam.mean.any()
    assert float(np.float32(1e-39) * np.float32(0.5)) > 0
    assert float(torch.tensor(1e-39) * 0.5) > 0


def test_ten_thousand_updates_take_the_same_time_from_first_to_last():
    """Half of the inputs are 0 after the first blocks, so that their moments decay to 0."""
    env = transitions.spec(shape=(16,))
    algo = transitions.make(
        transitions.small(net=(64, 64), max_grad_norm=10.0), env, engine="fused"
    )
    batch = transitions.random_batch(env, 50, 32)
    batch.weight[...] = 1
    blocks = []
    for block in range(20):
        if block == 2:
            batch.obs[..., :8] = 0
            batch.next_obs[..., :8] = 0
        blocks.append(
            median(best_of(lambda: algo.update(batch, 50, Counters())) for _ in range(10))
        )
    assert median(blocks[-5:]) < 1.5 * median(blocks[:5])
    assert algo.model.optimizer.adam.count == 10_000
