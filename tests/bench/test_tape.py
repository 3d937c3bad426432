"""Replays of recorded play are the play that was recorded, or fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from briskrl.bench import tape as tapes
from briskrl.bench.env import replay
from briskrl.bench.stopwatch import Stopwatch
from briskrl.bench.tape import Tape, TapeError
from briskrl.core.types import StepBuffers
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv

NUM_ENVS = 32


@pytest.fixture(scope="module")
def tape() -> Tape:
    return tapes.record(SnakeConfig(), NUM_ENVS, seed=3, steps_before=300, steps=200)


def play(tape: Tape, obs: str = "features", num_envs: int = NUM_ENVS) -> Stopwatch:
    env = SnakeVecEnv(num_envs, config=SnakeConfig(obs=obs))
    watch = Stopwatch()
    replay(tape, env, StepBuffers.allocate(env.env_spec, num_envs), watch)
    return watch


@pytest.mark.parametrize("obs", ["features", "flood", "extended", "grid"])
def test_a_replay_ends_like_the_recording_in_every_observation_mode(tape: Tape, obs: str) -> None:
    watch = play(tape, obs)
    assert watch.cpu_s > 0
    assert watch.wall_s > 0


def test_the_recording_holds_ended_episodes_and_long_snakes(tape: Tape) -> None:
    assert tape.episodes.count > 0
    assert 13 <= tape.mean_length <= 22
    assert len(tape.actions) == 200


def test_a_replay_from_another_state_is_refused(tape: Tape) -> None:
    state = {name: array.copy() for name, array in tape.state.items()}
    state["snake"][[0, 1]] = state["snake"][[1, 0]]
    with pytest.raises(TapeError, match="another way"):
        play(replace(tape, state=state))


def test_a_replay_of_other_moves_is_refused(tape: Tape) -> None:
    actions = [moves.copy() for moves in tape.actions]
    actions[10][5] = (actions[10][5] + 1) % 3
    with pytest.raises(TapeError, match="another way"):
        play(replace(tape, actions=actions))


def test_one_score_that_differs_is_enough_to_refuse(tape: Tape) -> None:
    score = tape.episodes.score.copy()
    score[-1] += 1
    with pytest.raises(TapeError, match="episode score"):
        play(replace(tape, episodes=replace(tape.episodes, score=score)))


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
