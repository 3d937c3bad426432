"""Padded CartPole is CartPole, and training on it is compared with training on others."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.bench.env_share import ShareBench, measure_share
from briskrl.bench.padded_cartpole import PaddedCartPole
from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec, BoxSpec, DiscreteSpec, EnvSpec
from briskrl.core.types import StepBuffers
from briskrl.envs.cartpole.env import CartPoleVecEnv
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete


def spec(shape=(7,), dtype=np.float32, actions=5, mask=True):
    return EnvSpec(
        obs=ArraySpec.of(shape, dtype, 0, 1),
        action=DiscreteSpec(actions),
        max_steps=9,
        has_mask=mask,
        exact_state=True,
    )


def test_padded_cartpole_steps_like_cartpole():
    padded, plain = PaddedCartPole(spec(), 6), CartPoleVecEnv(6)
    shown = StepBuffers.allocate(padded.env_spec, 6)
    bare = StepBuffers.allocate(plain.env_spec, 6)
    padded.start(3, shown)
    plain.start(3, bare)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(120):
        actions = rng.integers(0, 5, 6)
        padded.step_into(actions, shown)
        plain.step_into(actions % 2, bare)
        assert np.array_equal(shown.obs[:, :4], bare.obs)
        assert not shown.obs[:, 4:].any()
        assert shown.mask.all()
        for name in ("reward", "terminated", "truncated"):
            assert np.array_equal(getattr(shown, name), getattr(bare, name))
        over = bare.terminated | bare.truncated
        assert np.array_equal(shown.final_obs[over, :4], bare.final_obs[over])
        ends += over.sum()
    assert ends > 6
    assert padded.drain_stats().count == plain.drain_stats().count == ends


def test_observations_can_be_padded_to_bytes():
    env = PaddedCartPole(spec((3, 4, 4), np.uint8, mask=False), 2)
    shown = StepBuffers.allocate(env.env_spec, 2)
    env.start(0, shown)
    assert shown.obs.shape == (2, 3, 4, 4)
    assert (np.abs(shown.obs.reshape(2, -1)[:, :4].astype(int) - 128) < 4).all()


@pytest.mark.parametrize("shape", [(3,), (9,)])
def test_environments_that_cartpole_cannot_replace_are_rejected(shape):
    wrong = spec(shape)
    if shape == (9,):
        wrong = EnvSpec(wrong.obs, BoxSpec((1,), -1.0, 1.0), 9, False, True)
    with pytest.raises(ConfigError, match="can only replace"):
        PaddedCartPole(wrong, 2)


def test_both_sides_train_the_same_network():
    config = complete(TrainConfig(env="snake", algo="ppo", num_envs=8, engine="fused", steps=10**6))
    figures = measure_share(config, ShareBench(slices=3, seconds=0.02))
    assert figures.ratio_low < figures.ratio < figures.ratio_high
    assert figures.ratio == pytest.approx(
        figures.steps_per_cpu_s / figures.cartpole_steps_per_cpu_s, rel=1.0
    )
    assert (figures.inputs, figures.actions, figures.engine) == (11, 3, "fused")
    assert 0 < figures.env_share < 1
    assert 0 < figures.cartpole_env_share < 1
