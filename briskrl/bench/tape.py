"""A recorded stretch of heuristic play, to be replayed in any observation mode.

What a game does depends on its seed and its actions, not on what is observed. So the player, whose
choices cost more than the steps, plays once on reachable-space observations; replaying its moves
measures the environment alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from briskrl.core.types import Array, EpisodeStats, Ints, StepBuffers
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv
from briskrl.envs.snake.heuristic import heuristic_actions

LENGTHS = (13, 22)
"""Mean lengths between which play is recorded: neither the easy beginning nor only long snakes."""
MOST_BEFORE = 600
MOST_STEPS = 500
"""Bounds for boards on which snakes never come to those lengths, or never get past them."""


class TapeError(RuntimeError):
    """A replay did not end like the recording: the figures would be those of another play."""


@dataclass(frozen=True, slots=True)
class Tape:
    """Where the recording begins, what was done, and how it ended."""

    state: Mapping[str, Array]
    """State of the environment before the first move."""
    actions: list[Ints]
    """Moves (N,) of every vector step."""
    end: dict[str, Array]
    """The games after the last move, as plain numbers (N,)."""
    episodes: EpisodeStats
    """Episodes that ended during the recording (the newest, if they were very many)."""
    mean_length: float
    """Mean length of the snakes over the whole recording."""


def record(config: SnakeConfig, num_envs: int, seed: int) -> Tape:
    """Play new games until the snakes are long enough, then record until they are too long."""
    env = SnakeVecEnv(num_envs, config=replace(config, obs="flood", actions="relative"))
    out = StepBuffers.allocate(env.env_spec, num_envs)
    env.start(seed, out)
    for _ in range(MOST_BEFORE):
        env.step_into(heuristic_actions(out.obs), out)
        if _mean_length(env) >= LENGTHS[0]:
            break
    state = env.get_state()
    # Setting the state drops the records of episodes that ended so far.
    env.set_state(state)
    actions: list[Ints] = []
    lengths: list[float] = []
    while len(actions) < MOST_STEPS and (not lengths or lengths[-1] <= LENGTHS[1]):
        actions.append(heuristic_actions(out.obs))
        env.step_into(actions[-1], out)
        lengths.append(_mean_length(env))
    return Tape(state, actions, env.peek(), env.drain_stats(), float(np.mean(lengths)))


def _mean_length(env: SnakeVecEnv) -> float:
    return float(env.peek()["length"].mean())


def check(tape: Tape, env: SnakeVecEnv) -> None:
    """Make sure that a replay ended like the recording.

    Raises:
        TapeError: It did not.
    """
    end, episodes = env.peek(), env.drain_stats()
    pairs = [(name, end[name], tape.end[name]) for name in tape.end]
    pairs += [
        (f"episode {name}", getattr(episodes, name), getattr(tape.episodes, name))
        for name in ("env", "steps", "score", "cause")
    ]
    wrong = [name for name, got, wanted in pairs if not np.array_equal(got, wanted)]
    if wrong:
        raise TapeError(f"The replay went another way than the recording: {', '.join(wrong)}.")
