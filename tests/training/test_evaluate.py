"""Evaluation plays the episodes that it promises, each from its own seed."""

from __future__ import annotations

import numpy as np

from briskrl.core.rng import derive_seed
from briskrl.core.types import StepBuffers
from briskrl.envs.cartpole.config import CartPoleConfig
from briskrl.envs.make import make_env
from briskrl.training.evaluate import Agent, evaluate_agent, play_games


class ErraticPolicy:
    """Pushes by a late digit of the position: episodes are short, and of many lengths."""

    restart = None

    def act(self, obs, mask):
        return (1e4 * obs[:, 0]).astype(np.int64) % 2

    def fitted(self, spec):
        return self


AGENT = Agent(ErraticPolicy(), "cartpole", CartPoleConfig())


def first_episodes(num_envs: int, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns and lengths of first episodes, counted from rewards; and how many later ones end."""
    env = make_env("cartpole", num_envs, config=CartPoleConfig())
    buffers = StepBuffers.allocate(env.env_spec, num_envs)
    env.start(derive_seed(seed, "evaluate"), buffers)
    returns, lengths = np.zeros(num_envs), np.zeros(num_envs)
    playing, later = np.ones(num_envs, np.bool_), 0
    while playing.any():
        env.step_into(AGENT.policy.act(buffers.obs, None), buffers)
        returns += playing * buffers.reward
        lengths += playing
        ended = buffers.terminated | buffers.truncated
        later += int((ended & ~playing).sum())
        playing &= ~ended
    env.close()
    return returns, lengths, later


def test_each_environment_contributes_its_first_episode_only():
    games = play_games(AGENT, episodes=40, seed=3)
    returns, lengths, later = first_episodes(40, seed=3)
    assert later > 10
    assert len(set(lengths.tolist())) > 10
    np.testing.assert_allclose(games.returns, returns)
    np.testing.assert_array_equal(games.steps, lengths)


def test_more_episodes_continue_the_sequence_of_fewer():
    few, many = (play_games(AGENT, episodes=count, seed=3) for count in (40, 300))
    np.testing.assert_array_equal(many.steps[:40], few.steps)
    assert len(many.steps) == 300
    # Episodes of the second wave have seeds of their own.
    assert not np.array_equal(many.steps[256:], many.steps[:44])


def test_statistics_are_those_of_the_episodes():
    games = play_games(AGENT, episodes=40, seed=3)
    result = evaluate_agent(AGENT, episodes=40, seed=3)
    assert result.episodes == 40
    assert result.seed == 3
    assert result.mean_return == games.returns.mean()
    assert result.std_return == games.returns.std()
    assert result.mean_score == games.score.mean()
    assert result.max_score == games.score.max()
    assert result.mean_steps == games.steps.mean()
    assert result.win_rate == games.won.mean()
