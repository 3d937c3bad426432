"""Stable-Baselines3's DQN plays the same game with the same settings as ours."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.bench.snake_dqn import snake_dqn
from briskrl.core.types import StepBuffers
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv

pytest.importorskip("stable_baselines3")

from benchmarks.peers.dqn_sb3 import NEVER, SliceCallback, SnakeForSB3, build_dqn

CONFIG = snake_dqn(
    learning_starts=640, batch_size=16, net=(16,), buffer_size=1024, epsilon_steps=640
)


def test_the_adapter_plays_our_game_and_distinguishes_truncation() -> None:
    config = SnakeConfig(hunger_limit=12)
    with pytest.warns(UserWarning, match="hunger_limit"):
        peer = SnakeForSB3(SnakeVecEnv(32, config=config), seed=5)
    with pytest.warns(UserWarning, match="hunger_limit"):
        env = SnakeVecEnv(32, config=config)
    out = StepBuffers.allocate(env.env_spec, 32)
    env.start(5, out)
    np.testing.assert_array_equal(peer.reset(), out.obs)
    rng = np.random.default_rng(0)
    cut = fatal = 0
    for _ in range(100):
        actions = rng.integers(0, 3, 32)
        env.step_into(actions, out)
        obs, reward, dones, infos = peer.step(actions)
        np.testing.assert_array_equal(obs, out.obs)
        np.testing.assert_array_equal(reward, out.reward)
        np.testing.assert_array_equal(dones, out.terminated | out.truncated)
        for i in np.flatnonzero(dones):
            np.testing.assert_array_equal(infos[i]["terminal_observation"], out.final_obs[i])
            assert infos[i]["TimeLimit.truncated"] == out.truncated[i]
        assert all(not infos[i] for i in np.flatnonzero(~dones))
        cut += out.truncated.sum()
        fatal += out.terminated.sum()
    assert cut > 0
    assert fatal > 0


def test_arrays_of_the_adapter_are_copies() -> None:
    peer = SnakeForSB3(SnakeVecEnv(8, config=SnakeConfig()), seed=0)
    first = peer.reset()
    kept = first.copy()
    obs, reward, dones, _ = peer.step(np.zeros(8, np.int64))
    given = [obs.copy(), reward.copy(), dones.copy()]
    for _ in range(10):
        peer.step(np.ones(8, np.int64))
    np.testing.assert_array_equal(first, kept)
    for array, was in zip((obs, reward, dones), given, strict=True):
        np.testing.assert_array_equal(array, was)


def test_the_peer_keeps_the_update_ratio() -> None:
    env = SnakeForSB3(SnakeVecEnv(64, config=SnakeConfig()), seed=0)
    model = build_dqn(env, CONFIG, seed=0)
    model.learn(64 * 50)
    assert model._n_updates == (50 - 10) * 2
    assert [layer.out_features for layer in model.q_net.q_net if hasattr(layer, "weight")] == [
        16,
        3,
    ]


def test_slices_are_reported_and_end_the_training() -> None:
    env = SnakeForSB3(SnakeVecEnv(64, config=SnakeConfig()), seed=0)
    model = build_dqn(env, CONFIG, seed=0)
    order, rates = [], []

    def after_slice(rate: float) -> None:
        order.append(model.num_timesteps)
        rates.append(rate)

    callback = SliceCallback(cpu_s=0.01, first_step=1280, slices=3, after_slice=after_slice)
    model.learn(NEVER, callback=callback)
    assert len(rates) == len(order) == 4
    assert min(rates) > 0
    assert order == sorted(set(order))
    assert order[0] > 1280
    assert model.exploration_rate == pytest.approx(CONFIG.epsilon_end)
