"""Running statistics equal those of all data, computed at once."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.algos.normalize import RewardScale, RunningMoments
from briskrl.core.counters import Counters
from tests.algos.rollouts import collect, config, make, spec


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_running_moments_equal_those_of_all_rows_at_once(dtype):
    rng = np.random.default_rng(0)
    rows = (100 + 20 * rng.standard_normal((1000, 2, 3))).astype(dtype)
    moments = RunningMoments(6)
    assert (moments.deviation == 1).all()
    for part in np.array_split(rows, [1, 7, 500]):
        moments.add(part)
    flat = rows.reshape(1000, 6).astype(float)
    assert moments.mean == pytest.approx(flat.mean(0), rel=1e-10)
    assert moments.deviation == pytest.approx(flat.std(0), rel=1e-8)


def test_a_large_offset_does_not_cancel_the_standard_deviation():
    rows = 1e6 + np.random.default_rng(0).standard_normal((10_000, 1))
    moments = RunningMoments(1)
    moments.add(rows)
    assert moments.deviation == pytest.approx(rows.std(0), rel=1e-6)


def test_saved_moments_are_restored_exactly():
    moments, loaded = RunningMoments(4), RunningMoments(4)
    rows = np.random.default_rng(1).standard_normal((50, 4))
    moments.add(rows[:30])
    loaded.load(moments.arrays())
    moments.add(rows[30:])
    loaded.add(rows[30:])
    assert np.array_equal(moments.mean, loaded.mean)
    assert np.array_equal(moments.deviation, loaded.deviation)


def test_rewards_are_scaled_by_the_standard_deviation_of_discounted_returns():
    env = spec()
    agent = make(env=env)
    rollouts = [collect(agent, env, seed=seed) for seed in (0, 1)]
    scale, loaded = RewardScale(0.9), RewardScale(0.9)
    assert scale.factor == 1
    scale.add(rollouts[0])
    loaded.load(scale.arrays())
    for one in (scale, loaded):
        one.add(rollouts[1])
    seen, running = [], np.zeros(6)
    for rollout in rollouts:
        for t in range(8):
            running = 0.9 * running + rollout.reward[t]
            seen.append(running.copy())
            running[rollout.terminated[t] | rollout.truncated[t]] = 0
    assert scale.factor == pytest.approx(1 / np.std(seen), rel=1e-6)
    assert loaded.factor == scale.factor


def test_scaled_rewards_give_scaled_advantages():
    env = spec()
    scaled, plain = make(config(normalize_reward=True), env), make(env=env)
    first, second = collect(scaled, env), collect(plain, env)
    first.reward *= 50
    raw = first.reward.copy()
    scaled.compute_advantages([first], Counters())
    factor = scaled._reward_scale.factor
    second.reward[...] = np.clip(first.reward * factor, -10, 10)
    plain.compute_advantages([second], Counters())
    assert first.advantage[:-1] == pytest.approx(second.advantage[:-1], abs=1e-5)
    assert np.array_equal(first.reward, raw)
