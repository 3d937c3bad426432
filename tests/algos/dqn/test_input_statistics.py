"""Normalized observations of DQN: raw in the replay buffer, normalized wherever they are read."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from briskrl.algos.dqn.input_statistics import InputStatistics
from briskrl.algos.dqn.policy import QPolicy
from briskrl.core.counters import Counters
from briskrl.core.types import Decision
from briskrl.nets.bodies import InputScaling
from tests.algos.transitions import make, move_target, random_batch, small, spec

OFFSET, SCALE = np.array([5.0, -3.0, 0.0, 100.0, 1.0]), np.array([0.1, 2.0, 1.0, 30.0, 0.1])


def rows(count, seed=0):
    numbers = np.random.default_rng(seed).standard_normal((count, 5))
    return (OFFSET + SCALE * numbers).astype(np.float32)


def act(algo, obs):
    out = Decision.allocate(spec(), len(obs))
    algo.act(obs, None, Counters(env_steps=10**9), out)
    return out.action.copy()


def test_statistics_in_use_are_renewed_when_a_twentieth_has_been_added():
    inputs = InputScaling(spec().obs, standardize=True)
    found = InputStatistics(5, (inputs,))
    everything = rows(2000)
    found.add(everything[:1000])
    assert (inputs.mean == 0).all()
    assert found.renew_if_due()
    assert inputs.mean.numpy() == pytest.approx(everything[:1000].mean(0), rel=1e-5)
    found.add(everything[1000:1050])
    assert not found.renew_if_due()
    found.add(everything[1050:])
    assert found.renew_if_due()
    whole = everything.astype(np.float64)
    assert inputs.mean.numpy() == pytest.approx(whole.mean(0), rel=1e-5)
    assert inputs.scale.numpy() == pytest.approx(1 / whole.std(0), rel=1e-4)


class Twins:
    """A group of two replicas, the other of which has seen the same rows once more."""

    rank, size = 0, 2

    def gather(self, values):
        return np.stack([values, values])


def test_replicas_renew_together_with_what_all_have_seen():
    inputs = InputScaling(spec().obs, standardize=True)
    found = InputStatistics(5, (inputs,), Twins())
    seen = rows(100)
    found.add(seen)
    assert not found.renew_if_due()
    found.renew()
    assert found.used()["obs.count"] == 200
    assert inputs.mean.numpy() == pytest.approx(seen.mean(0), rel=1e-5)


def test_saved_statistics_continue_exactly():
    first, second = (
        InputStatistics(5, (InputScaling(spec().obs, standardize=True),)) for _ in range(2)
    )
    first.add(rows(100))
    first.renew_if_due()
    first.add(rows(4, seed=1))
    second.load(first.used(), first.recent())
    for found in (first, second):
        found.add(rows(9, seed=2))
        assert found.renew_if_due()
    for name, array in first.used().items():
        assert np.array_equal(array, second.used()[name]), name


def test_actions_and_updates_equal_those_on_observations_normalized_beforehand(engine):
    """The network of a plain DQN sees exactly what the normalizing one computes for itself."""
    algo = make(small(normalize_obs=True, double=True, lr=1e-2), engine=engine)
    plain = make(small(double=True, lr=1e-2), engine=engine)
    seen = rows(500)
    act(algo, seen)
    mean, scale = (getattr(algo.model.online.inputs, name).numpy() for name in ("mean", "scale"))
    normalized = (seen - mean) * scale
    assert np.abs(normalized.mean(0)).max() < 1e-3
    for one in (algo, plain):
        move_target(one)
    raw, given = random_batch(spec(), 3), random_batch(spec(), 3)
    for name in ("obs", "next_obs"):
        numbers = rows(24, seed=4).reshape(3, 8, 5)
        getattr(raw, name)[...] = numbers
        getattr(given, name)[...] = (numbers - mean) * scale
    algo.update(raw, 3, Counters())
    plain.update(given, 3, Counters())
    assert torch.allclose(
        algo.model.online_flat.values, plain.model.online_flat.values, atol=1e-5, rtol=1e-4
    )
    greedy = [np.zeros(500, np.int64) for _ in range(2)]
    algo.engines.now.act(seen, None, 0.0, greedy[0])
    plain.engines.now.act(normalized.astype(np.float32), None, 0.0, greedy[1])
    assert (greedy[0] == greedy[1]).mean() > 0.99


def test_a_policy_and_a_resumed_run_normalize_as_training_did(engine):
    algo = make(small(normalize_obs=True), engine=engine)
    act(algo, rows(300))
    algo.update(random_batch(spec(), 1), 1, Counters())
    state = algo.state()
    policy = QPolicy(algo.config, spec().obs, spec().action, state["model"].arrays)
    obs = rows(100, seed=5)
    greedy = np.zeros(100, np.int64)
    algo.engines.now.act(obs, None, 0.0, greedy)
    assert (policy.act(obs, None) == greedy).mean() > 0.98
    other = make(small(normalize_obs=True), engine=engine, seed=1)
    other.load_state(state)
    for one in (algo, other):
        act(one, rows(40, seed=6))
        one.update(random_batch(spec(), 2, seed=7), 2, Counters())
    assert torch.equal(algo.model.online_flat.values, other.model.online_flat.values)
    assert torch.equal(algo.model.online.inputs.scale, other.model.online.inputs.scale)


def test_a_teachers_transitions_begin_the_statistics():
    algo = make(small(normalize_obs=True), engine="torch")
    batch = random_batch(spec(), 4, 64)
    batch.obs[...] = rows(256).reshape(4, 64, 5)
    algo.update(batch, 2, Counters())
    seen = batch.obs[:2].reshape(-1, 5)
    assert algo.model.online.inputs.mean.numpy() == pytest.approx(seen.mean(0), rel=1e-4)
    assert algo.model.target.inputs.mean.numpy() == pytest.approx(seen.mean(0), rel=1e-4)


def test_the_learning_rate_falls_to_zero_over_the_updates_of_the_budget(engine):
    config = small(lr=1e-2, lr_schedule="linear", learning_starts=100, train_steps_ratio=0.5)
    algo = make(config, engine=engine)
    counters = Counters(total_steps=120)
    sizes = []
    for number in range(12):
        before = algo.model.online_flat.values.clone()
        algo.update(random_batch(spec(), 1, seed=number), 1, counters)
        counters.updates += 1
        sizes.append(float((algo.model.online_flat.values - before).abs().max()))
    # 10 updates are expected; Adam's first step has the size of the learning rate.
    assert sizes[0] == pytest.approx(1e-2, rel=0.01)
    assert sizes[9] < 0.3 * sizes[1]
    assert sizes[10:] == [0.0, 0.0]


def test_pretraining_takes_the_whole_learning_rate():
    config = small(lr=1e-2, lr_schedule="linear", learning_starts=100, train_steps_ratio=0.5)
    algo = make(config, engine="torch")
    counters = Counters(total_steps=120, updates=50)
    with algo.behavior_cloning():
        before = algo.model.online_flat.values.clone()
        algo.update(random_batch(spec(), 1), 1, counters)
        change = (algo.model.online_flat.values - before).abs().max()
    assert float(change) == pytest.approx(1e-2, rel=0.01)
