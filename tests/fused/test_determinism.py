"""Runs are equal to the bit, for one thread and for two, no matter which thread computes a part."""

from __future__ import annotations

import gc
import threading
import time
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.algos.dqn.kernels import paired_threads as kernels
from briskrl.algos.ppo.config import PPO_PRESETS
from briskrl.core.counters import Counters
from briskrl.core.types import Decision
from tests.algos import rollouts, transitions
from tests.algos.ppo.test_fused_gradients import random_minibatch


def learn_values(preset: str, threads: int) -> np.ndarray:
    """Parameters after a number of calls with acting in between."""
    config = transitions.small(
        **{"net": (40, 24), **DQN_PRESETS[preset], "target_every": 7, "lr": 1e-3}
    )
    env = transitions.spec()
    algo = transitions.make(config, env, engine="fused", threads=threads)
    batch = transitions.random_batch(env, 12, 150)
    decision = Decision(np.zeros(90, np.int64))
    for k in range(8):
        algo.act(batch.obs[k, :90], None, Counters(), decision)
        batch.obs[...] = np.roll(batch.obs, 1, axis=1)
        algo.update(batch, 3 + k, Counters())
    return transitions.parameters(algo)


def learn_policy(preset: str, threads: int) -> np.ndarray:
    """Parameters after minibatches large enough to be shared."""
    env = rollouts.spec(mask=True)
    options = {**PPO_PRESETS[preset], "lr": 1e-3}
    agent = rollouts.make(rollouts.config(**options), env, engine="fused", threads=threads)
    batch = random_minibatch(agent, env, 1500, seed=3)
    decision = Decision(np.zeros(1500, np.int64), np.zeros(1500, np.float32))
    for _ in range(10):
        agent.act(batch.obs, batch.mask, Counters(), decision)
        batch.action[...], batch.old_log_prob[...] = decision.action, decision.log_prob
        agent.update(batch, Counters())
    return rollouts.parameters(agent)


CASES = [
    *(pytest.param(learn_values, preset, id=preset) for preset in ("dqn", "per-dqn", "rainbow")),
    *(pytest.param(learn_policy, preset, id=preset) for preset in PPO_PRESETS),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("learn", "preset"), CASES)
def test_two_runs_are_equal_to_the_bit(learn, preset, threads):
    first = learn(preset, threads)
    for _ in range(3):
        assert np.array_equal(learn(preset, threads), first)


@pytest.mark.parametrize(("learn", "preset"), CASES)
def test_one_and_two_threads_agree_within_rounding(learn, preset):
    assert learn(preset, 1) == pytest.approx(learn(preset, 2), abs=1e-4)


@pytest.mark.parametrize("batch_size", [1, 7, 64, 65, 150])
@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_halves_of_a_batch_do_not_depend_on_the_thread_that_computes_them(preset, batch_size):
    config = transitions.small(**{**DQN_PRESETS[preset], "net": (40, 24), "target_every": 7})
    env = transitions.spec()
    batch = transitions.random_batch(env, 30, batch_size)
    found = {}
    for alone in (False, True):
        engine = transitions.make(config, env, engine="fused", overlap=True).engines.now
        with nullcontext() if alone else helper_thread_of(engine, batch):
            errors = [engine.update(batch, 30, 30 * k).copy() for k in range(20)]
        assert (engine._mailbox[kernels.ROUND] == 0) == alone
        found[alone] = [engine._model.online_flat.values.numpy(), *errors]
        losses = engine.drain()
        assert losses == found.setdefault("losses", losses)
    for ours, theirs in zip(found[False], found[True], strict=True):
        assert np.array_equal(ours, theirs)


@contextmanager
def helper_thread_of(engine, batch):
    """A thread that helps with updates until they are done."""
    end = np.zeros(1, np.int64)
    engine.freeze_actor(batch, beyond_help=False)
    partner = threading.Thread(target=engine.help_until, args=(batch, (end, 0, 1)))
    partner.start()
    while engine._mailbox[kernels.HELPER] != kernels.READY:
        time.sleep(0.001)
    try:
        yield
    finally:
        end[0] = 1
        partner.join()


@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_a_second_thread_follows_what_is_loaded(preset):
    """Its replica of network and optimizer is out of date until then."""
    config = transitions.small(**{**DQN_PRESETS[preset], "target_every": 7})
    env = transitions.spec()
    original, restored = (
        transitions.make(config, env, seed=seed, engine="fused", threads=2) for seed in (0, 99)
    )
    batch = transitions.random_batch(env, 30, 100)
    for seed in range(5):
        restored.update(transitions.random_batch(env, 30, 100, seed=seed), 30, Counters())
        original.update(batch, 30, Counters())
        restored.load_state(original.state())
        for algo in (original, restored):
            algo.update(batch, 30, Counters())
        assert np.array_equal(transitions.parameters(original), transitions.parameters(restored))


def test_threads_of_an_algorithm_end_with_it():
    before = set(threading.enumerate())
    algo = transitions.make(transitions.small(), engine="fused", threads=2)
    algo.update(transitions.random_batch(transitions.spec(), 3), 3, Counters())
    agent, minibatch = rollouts.with_advantages(engine="fused", threads=2)
    agent.update(minibatch, Counters())
    mine = set(threading.enumerate()) - before
    assert mine
    del algo, agent, minibatch
    gc.collect()
    for thread in mine:
        thread.join(timeout=20)
    assert not any(thread.is_alive() for thread in mine)
