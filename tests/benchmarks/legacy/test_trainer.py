"""The slow loop does the same work as ours, so that comparing them is meaningful."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.legacy.compare import play_randomly, to_transitions
from benchmarks.legacy.trainer import (
    LegacyReplay,
    LegacyTrainer,
    flood_features,
    games_of,
    push_one_by_one,
)
from briskrl.algos.dqn.config import DQNConfig
from briskrl.bench.recorded_play import record_snake
from briskrl.bench.snake_dqn import snake_dqn
from briskrl.core.types import StepBuffers
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv
from briskrl.envs.snake.players import heuristic_actions


@pytest.mark.parametrize(("height", "width"), [(10, 10), (5, 8)])
def test_python_searches_equal_our_flood_observation(height: int, width: int) -> None:
    config = SnakeConfig(obs="flood", height=height, width=width)
    recording = record_snake(config, 32, seed=1)
    env = SnakeVecEnv(32, config=config)
    out = StepBuffers.allocate(env.env_spec, 32)
    env.set_state(recording.state)
    env.observe_into(out)
    for _ in range(60):
        searched = flood_features(games_of(env), height, width)
        np.testing.assert_array_equal(searched, out.obs[:, 11:14])
        env.step_into(heuristic_actions(out.obs), out)
    assert ((searched > 0) & (searched < 1)).any()


def test_pushing_one_by_one_stores_every_field_of_every_transition() -> None:
    env = SnakeVecEnv(16, config=SnakeConfig())
    steps = play_randomly(env, seed=0)
    replay = LegacyReplay(16 * len(steps) - 8, 11, seed=0)
    for step in steps:
        push_one_by_one(replay, to_transitions(*step))
    before, decision, after = steps[-1]
    ended = after.terminated | after.truncated
    assert replay.size == replay.capacity
    assert replay.position == 8
    rows = (np.arange(-16, 0) + 8) % replay.capacity
    np.testing.assert_array_equal(replay.states[rows], before.obs)
    np.testing.assert_array_equal(replay.actions[rows], decision.action)
    np.testing.assert_array_equal(replay.rewards[rows], after.reward)
    np.testing.assert_array_equal(replay.dones[rows], ended)
    wanted = np.where(ended[:, None], after.final_obs, after.obs)
    np.testing.assert_array_equal(replay.next_states[rows], wanted)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def trainer(config: DQNConfig, num_envs: int) -> tuple[LegacyTrainer, io.StringIO, io.StringIO]:
    console, table = io.StringIO(), io.StringIO()
    env = SnakeVecEnv(num_envs, config=SnakeConfig())
    return LegacyTrainer(env, config, 0, console=console, table=table), console, table


def test_the_slow_loop_does_a_quarter_update_per_transition() -> None:
    slow, console, table = trainer(snake_dqn(batch_size=16, net=(16,)), 32)
    for _ in range(40):
        slow.iterate()
    assert slow.updates == 40 * 8
    assert slow.replay.size == slow.steps == 40 * 32
    lines = console.getvalue().splitlines()
    assert len(lines) == len(table.getvalue().splitlines()) == slow.episodes > 0
    assert lines[-1].startswith(f"Episode {slow.episodes}: score ")


def test_the_slow_update_learns() -> None:
    config = replace(snake_dqn(), net=(32,), lr=3e-3, target_every=10_000)
    slow, _, _ = trainer(config, 16)
    for _ in range(40):
        slow.collect()
    losses = [slow.train_step() for _ in range(600)]
    assert np.mean(losses[-50:]) < 0.5 * np.mean(losses[:50])
