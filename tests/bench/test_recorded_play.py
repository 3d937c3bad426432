"""Replays of recorded play are the play that was recorded, or fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from briskrl.bench import recorded_play as tapes
from briskrl.bench.env import replay
from briskrl.bench.recorded_play import Recording, ReplayError
from briskrl.bench.stopwatch import Stopwatch
from briskrl.core.errors import ConfigError
from briskrl.core.types import StepBuffers
from briskrl.envs.registry import ENVS
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv

NUM_ENVS = 32
BOARD = SnakeConfig(height=6, width=6)


@pytest.fixture(scope="module")
def tape() -> Recording:
    return tapes.record(BOARD, NUM_ENVS, seed=3)


def play(tape: Recording, **settings: Any) -> Stopwatch:
    env = SnakeVecEnv(NUM_ENVS, config=replace(BOARD, **settings))
    watch = Stopwatch()
    replay(tape, env, StepBuffers.allocate(env.env_spec, NUM_ENVS), watch)
    return watch


@pytest.mark.parametrize("obs", ["features", "flood", "extended", "grid"])
def test_a_replay_ends_like_the_recording_in_every_observation_mode(
    tape: Recording, obs: str
) -> None:
    watch = play(tape, obs=obs)
    assert watch.cpu_s > 0
    assert watch.wall_s > 0


def test_the_recording_holds_ended_episodes(tape: Recording) -> None:
    assert tape.episodes.count > 0


def test_snakes_of_the_recording_are_neither_short_nor_long() -> None:
    tape = tapes.record(SnakeConfig(), NUM_ENVS, seed=3)
    assert 13 <= tape.mean_length <= 22
    first = SnakeVecEnv(NUM_ENVS, config=SnakeConfig())
    first.set_state(tape.state)
    assert 13 <= first.peek()["length"].mean() < 14
    assert 22 < tape.end["length"].mean() < 23


def test_boards_too_small_for_such_snakes_are_recorded_all_the_same() -> None:
    tape = tapes.record(SnakeConfig(height=4, width=4), 8, seed=0)
    assert len(tape.actions) == tapes.MOST_STEPS
    assert tape.episodes.count > 0


def test_a_replay_from_another_state_is_refused(tape: Recording) -> None:
    state = {name: array.copy() for name, array in tape.state.items()}
    state["snake"][[0, 1]] = state["snake"][[1, 0]]
    with pytest.raises(ReplayError, match="another way"):
        play(replace(tape, state=state))


def test_a_replay_of_other_moves_is_refused(tape: Recording) -> None:
    actions = [moves.copy() for moves in tape.actions]
    actions[10][5] = (actions[10][5] + 1) % 3
    with pytest.raises(ReplayError, match="another way"):
        play(replace(tape, actions=actions))


def test_one_score_that_differs_is_enough_to_refuse(tape: Recording) -> None:
    score = tape.episodes.score.copy()
    score[-1] += 1
    with pytest.raises(ReplayError, match="episode score"):
        play(replace(tape, episodes=replace(tape.episodes, score=score)))


@pytest.mark.parametrize("name", sorted(set(ENVS) - {"gym", "given"}))
def test_every_native_family_can_be_recorded_and_replayed(name: str) -> None:
    tape, env = tapes.record_family(name, 8, 3, threads=1)
    out = StepBuffers.allocate(env.env_spec, 8)
    watch = Stopwatch()
    replay(tape, env, out, watch)
    assert watch.cpu_s > 0
    assert tape.episodes.count > 8
    backwards = replace(tape, actions=tape.actions[::-1])
    with pytest.raises(ReplayError, match="another way"):
        replay(backwards, env, out, watch)
    env.close()


def test_environments_of_others_are_refused() -> None:
    with pytest.raises(ConfigError, match="none of them"):
        tapes.record_family("gym:CartPole-v1", 2, 0, threads=1)


def test_a_stopwatch_counts_only_what_happens_inside_it() -> None:
    watch = Stopwatch()
    with watch:
        np.sort(np.arange(200_000)[::-1])
    first = (watch.wall_s, watch.cpu_s)
    np.sort(np.arange(200_000)[::-1])
    assert (watch.wall_s, watch.cpu_s) == first
    with watch:
        np.sort(np.arange(200_000)[::-1])
    assert watch.cpu_s > first[1]
