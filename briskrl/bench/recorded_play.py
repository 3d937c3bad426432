"""A recorded stretch of heuristic play, to be replayed for measuring.

What a game does depends on its seed and its actions, not on who chose them. So the player, whose
choices cost more than the steps, plays once; replaying its moves measures the environment alone.
Snake is played on reachable-space observations and can be replayed in any observation mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from briskrl.core.errors import ConfigError, nearest
from briskrl.core.types import Array, EpisodeStats, Ints, StepBuffers
from briskrl.envs.make import make_env
from briskrl.envs.native import NativeVecEnv
from briskrl.envs.registry import ENVS, EnvFamily, HandWritten, Player
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv
from briskrl.envs.snake.players import heuristic_actions

LENGTHS = (13, 22)
"""Mean lengths between which play is recorded: neither the easy beginning nor only long snakes."""
MOST_BEFORE = 600
MOST_STEPS = 500
"""Bounds for boards on which snakes never come to those lengths, or never get past them."""
RANDOM_SHARE = 0.5
"""Share of random moves in other games, so that episodes end at all sorts of times."""


class ReplayError(RuntimeError):
    """A replay did not end like the recording: the figures would be those of another play."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Where the recording begins, what was done, and how it ended."""

    state: Mapping[str, Array]
    """State of the environment before the first move."""
    actions: list[Ints]
    """Moves (N,) of every vector step."""
    end: dict[str, Array]
    """The games after the last move, see `end_of`."""
    episodes: EpisodeStats
    """Episodes that ended during the recording (the newest, if they were very many)."""
    mean_length: float
    """Mean length of the snakes over the whole recording; 0 in other games."""


def record(config: SnakeConfig, num_envs: int, seed: int) -> Recording:
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
    return Recording(state, actions, end_of(env), env.drain_stats(), float(np.mean(lengths)))


def record_family(
    name: str, num_envs: int, seed: int, *, threads: int, config: Any = None, who: str = "auto"
) -> tuple[Recording, NativeVecEnv]:
    """Play games of a native family for a while, then record; also the environment they were in.

    The family's best hand-written player plays, or the one asked for, with some random moves.

    Raises:
        ConfigError: The environment is not one of our own, or has no such player.
    """
    family = ENVS.get(name)
    player = _player(family, who)
    config = replace(config or family.load_config()(), **(player.needs if player else {}))
    env = make_env(name, num_envs, config, threads)
    # Some of Gymnasium's are compiled as well; their states are texts, made for keeping.
    if family.member or not isinstance(env, NativeVecEnv):
        env.close()
        raise ConfigError(f"bench env measures our own environments; {name!r} is none of them.")
    mover = _Mover(env, player.policy() if player else None, seed)
    for _ in range(MOST_BEFORE):
        mover.move()
    state = env.get_state()
    env.set_state(state)
    actions = [mover.move() for _ in range(MOST_STEPS)]
    return Recording(state, actions, end_of(env), env.drain_stats(), 0.0), env


def _player(family: EnvFamily, who: str) -> Player | None:
    """The hand-written player of this name; None plays at random."""
    if who == "auto":
        return next(iter(family.players.values()), None)
    if who != "random" and who not in family.players:
        known = nearest(who, [*family.players, "random"])
        raise ConfigError(f"The environment {family.name!r} has no player {who!r}. {known}")
    return family.players.get(who)


class _Mover:
    """Plays new games with a hand-written player and some random legal moves."""

    def __init__(self, env: NativeVecEnv, policy: HandWritten | None, seed: int) -> None:
        self._env = env
        self._policy = policy
        self._rng = np.random.default_rng(seed)
        self._out = StepBuffers.allocate(env.env_spec, env.num_envs)
        env.start(seed, self._out)

    def move(self) -> Ints:
        """Play one step in every game; returns the moves (N,)."""
        env, out, rng = self._env, self._out, self._rng
        legal = env.action_masks()
        moves: Ints = (rng.random(legal.shape) + legal).argmax(axis=1)
        if self._policy is not None:
            random = rng.random(env.num_envs) < RANDOM_SHARE
            moves = np.where(random, moves, self._policy.act(out.obs, out.mask))
        env.step_into(moves, out)
        if self._policy is not None and self._policy.restart is not None:
            self._policy.restart(out.terminated | out.truncated)
        return moves


def end_of(env: NativeVecEnv) -> dict[str, Array]:
    """The games as plain numbers (N,), which do not depend on the observation mode."""
    if isinstance(env, SnakeVecEnv):
        return env.peek()
    return dict(env.get_state())


def _mean_length(env: SnakeVecEnv) -> float:
    return float(env.peek()["length"].mean())


def check(tape: Recording, env: NativeVecEnv) -> None:
    """Make sure that a replay ended like the recording.

    Raises:
        ReplayError: It did not.
    """
    end, episodes = end_of(env), env.drain_stats()
    pairs = [(name, end[name], tape.end[name]) for name in tape.end]
    pairs += [
        (f"episode {name}", getattr(episodes, name), getattr(tape.episodes, name))
        for name in ("env", "steps", "score", "cause")
    ]
    wrong = [name for name, got, wanted in pairs if not np.array_equal(got, wanted)]
    if wrong:
        raise ReplayError(f"The replay went another way than the recording: {', '.join(wrong)}.")
