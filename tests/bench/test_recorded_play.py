"""Replays of recorded games end like the recording, or fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from briskrl.bench.recorded_play import (
    MAX_STEPS,
    Recording,
    ReplayError,
    record_family,
    record_snake,
    replay,
)
from briskrl.bench.stopwatch import Stopwatch
from briskrl.core.errors import ConfigError
from briskrl.core.types import StepBuffers
from briskrl.envs.registry import ENVS
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv

NUM_ENVS = 32
BOARD = SnakeConfig(height=6, width=6)


@pytest.fixture(scope="module")
def recording() -> Recording:
    return record_snake(BOARD, NUM_ENVS, seed=3)


def play(recording: Recording, **settings: Any) -> Stopwatch:
    env = SnakeVecEnv(NUM_ENVS, config=replace(BOARD, **settings))
    watch = Stopwatch()
    replay(recording, env, StepBuffers.allocate(env.env_spec, NUM_ENVS), watch)
    return watch


@pytest.mark.parametrize("obs", ["features", "flood", "extended", "grid"])
def test_a_replay_ends_like_the_recording_in_every_observation_mode(
    recording: Recording, obs: str
) -> None:
    watch = play(recording, obs=obs)
    assert watch.cpu_s > 0
    assert watch.wall_s > 0


def test_the_recording_includes_ended_episodes(recording: Recording) -> None:
    assert recording.episodes.count > 0


def test_recorded_snakes_have_lengths_within_the_range() -> None:
    recording = record_snake(SnakeConfig(), NUM_ENVS, seed=3)
    assert 13 <= recording.mean_length <= 22
    first = SnakeVecEnv(NUM_ENVS, config=SnakeConfig())
    first.set_state(recording.state)
    assert 13 <= first.peek()["length"].mean() < 14
    assert 22 < recording.end["length"].mean() < 23


def test_boards_too_small_for_that_range_are_recorded_too() -> None:
    recording = record_snake(SnakeConfig(height=4, width=4), 8, seed=0)
    assert len(recording.actions) == MAX_STEPS
    assert recording.episodes.count > 0


def test_a_replay_from_another_state_fails(recording: Recording) -> None:
    state = {name: array.copy() for name, array in recording.state.items()}
    state["snake"][[0, 1]] = state["snake"][[1, 0]]
    with pytest.raises(ReplayError, match="differs"):
        play(replace(recording, state=state))


def test_a_replay_of_other_actions_fails(recording: Recording) -> None:
    actions = [each.copy() for each in recording.actions]
    actions[10][5] = (actions[10][5] + 1) % 3
    with pytest.raises(ReplayError, match="differs"):
        play(replace(recording, actions=actions))


def test_a_single_different_score_fails(recording: Recording) -> None:
    score = recording.episodes.score.copy()
    score[-1] += 1
    with pytest.raises(ReplayError, match="episode score"):
        play(replace(recording, episodes=replace(recording.episodes, score=score)))


@pytest.mark.parametrize(
    "name", sorted(name for name in set(ENVS) - {"given"} if not ENVS.get(name).member)
)
def test_every_native_family_can_be_recorded_and_replayed(name: str) -> None:
    recording, env = record_family(name, 8, 3, threads=1)
    out = StepBuffers.allocate(env.env_spec, 8)
    watch = Stopwatch()
    replay(recording, env, out, watch)
    assert watch.cpu_s > 0
    assert recording.episodes.count > 8
    backwards = replace(recording, actions=recording.actions[::-1])
    with pytest.raises(ReplayError, match="differs"):
        replay(backwards, env, out, watch)
    env.close()


@pytest.mark.parametrize("name", ["gym:CartPole-v1", "workflow:cage2"])
def test_members_of_families_are_rejected(name: str) -> None:
    with pytest.raises(ConfigError, match="not native"):
        record_family(name, 2, 0, threads=1)


def test_a_stopwatch_counts_only_time_inside_it() -> None:
    watch = Stopwatch()
    with watch:
        np.sort(np.arange(200_000)[::-1])
    first = (watch.wall_s, watch.cpu_s)
    np.sort(np.arange(200_000)[::-1])
    assert (watch.wall_s, watch.cpu_s) == first
    with watch:
        np.sort(np.arange(200_000)[::-1])
    assert watch.cpu_s > first[1]
