"""Recorded games of hand-written players, replayed to measure an environment alone.

A game depends on its seed and its actions, not on the player. Choosing actions costs more than
stepping, so the player plays once and the benchmark replays its actions. Snake is played on `flood`
observations and can be replayed in any observation mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from briskrl.bench.stopwatch import Stopwatch
from briskrl.core.errors import ConfigError, nearest
from briskrl.core.types import Array, EpisodeStats, Ints, StepBuffers
from briskrl.envs.make import make_env
from briskrl.envs.native import NativeVecEnv
from briskrl.envs.registry import ENVS, EnvFamily, HandWritten, Player
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv
from briskrl.envs.snake.players import heuristic_actions

LENGTHS = (13, 22)
"""Snake is recorded while the mean length is in this range, between the easy start of a game and
very long snakes."""
MAX_STEPS_BEFORE = 600
MAX_STEPS = 500
"""Limits for boards on which the mean length never enters or never leaves that range."""
RANDOM_FRACTION = 0.5
"""Fraction of random actions in other games, so that episodes end at different times."""


class ReplayError(RuntimeError):
    """A replay ended differently from its recording, so its timing is not comparable."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Actions of several games, with the state before the first and the outcome."""

    state: Mapping[str, Array]
    """State of the environment before the first action."""
    actions: list[Ints]
    """Actions (N,) of every vector step."""
    end: dict[str, Array]
    """The games after the last action, see `end_of`."""
    episodes: EpisodeStats
    """Episodes that ended during the recording (the most recent, if there were very many)."""
    mean_length: float
    """Mean length of the snakes over the recording; 0 in other games."""


def record_snake(config: SnakeConfig, num_envs: int, seed: int) -> Recording:
    """Play new games of Snake, and record while the mean length is within LENGTHS."""
    env = SnakeVecEnv(num_envs, config=replace(config, obs="flood", actions="relative"))
    out = StepBuffers.allocate(env.env_spec, num_envs)
    env.start(seed, out)
    for _ in range(MAX_STEPS_BEFORE):
        env.step_into(heuristic_actions(out.obs), out)
        if _mean_length(env) >= LENGTHS[0]:
            break
    state = env.get_state()
    # Setting the state discards the records of episodes that have ended so far.
    env.set_state(state)
    actions: list[Ints] = []
    lengths: list[float] = []
    while len(actions) < MAX_STEPS and (not lengths or lengths[-1] <= LENGTHS[1]):
        actions.append(heuristic_actions(out.obs))
        env.step_into(actions[-1], out)
        lengths.append(_mean_length(env))
    return Recording(state, actions, end_of(env), env.drain_stats(), float(np.mean(lengths)))


def record_family(
    name: str, num_envs: int, seed: int, *, threads: int, config: Any = None, player: str = "auto"
) -> tuple[Recording, NativeVecEnv]:
    """Record games of another native family; returns the environment too.

    Args:
        name: The family.
        num_envs: N.
        seed: Seed of the games.
        threads: Threads of the environment.
        config: Settings of the environment; its defaults if None.
        player: A hand-written player, "random", or "auto" for the first one the family lists.
            RANDOM_FRACTION of a hand-written player's actions are replaced by random ones.

    Raises:
        ConfigError: The environment is not native, or has no such player.
    """
    family = ENVS.get(name)
    chosen = _player(family, player)
    config = replace(config or family.load_config()(), **(chosen.needs if chosen else {}))
    env = make_env(name, num_envs, config, threads)
    # Compiled versions of Gymnasium's environments are native too, but their states are texts.
    if family.member or not isinstance(env, NativeVecEnv):
        env.close()
        raise ConfigError(f"bench env measures native environments only; {name!r} is not native.")
    games = _Games(env, chosen.policy() if chosen else None, seed)
    for _ in range(MAX_STEPS_BEFORE):
        games.step()
    state = env.get_state()
    env.set_state(state)
    actions = [games.step() for _ in range(MAX_STEPS)]
    return Recording(state, actions, end_of(env), env.drain_stats(), 0.0), env


def replay(recording: Recording, env: NativeVecEnv, out: StepBuffers, watch: Stopwatch) -> None:
    """Replay a recording once; only the calls of `step_into` are timed.

    Raises:
        ReplayError: The games ended differently.
    """
    env.set_state(recording.state)
    step = env.step_into
    with watch:
        for actions in recording.actions:
            step(actions, out)
    _check(recording, env)


def end_of(env: NativeVecEnv) -> dict[str, Array]:
    """The games as arrays (N,) that do not depend on the observation mode."""
    if isinstance(env, SnakeVecEnv):
        return env.peek()
    return dict(env.get_state())


def _player(family: EnvFamily, name: str) -> Player | None:
    """The hand-written player of this name; None plays at random."""
    if name == "auto":
        return next(iter(family.players.values()), None)
    if name != "random" and name not in family.players:
        known = nearest(name, [*family.players, "random"])
        raise ConfigError(f"The environment {family.name!r} has no player {name!r}. {known}")
    return family.players.get(name)


class _Games:
    """New games, played by a hand-written player with some random legal actions."""

    def __init__(self, env: NativeVecEnv, policy: HandWritten | None, seed: int) -> None:
        self._env = env
        self._policy = policy
        self._rng = np.random.default_rng(seed)
        self._out = StepBuffers.allocate(env.env_spec, env.num_envs)
        env.start(seed, self._out)

    def step(self) -> Ints:
        """Play one step of every game; returns the actions (N,)."""
        env, out, rng = self._env, self._out, self._rng
        legal = env.action_masks()
        actions: Ints = (rng.random(legal.shape) + legal).argmax(axis=1)
        if self._policy is not None:
            random = rng.random(env.num_envs) < RANDOM_FRACTION
            actions = np.where(random, actions, self._policy.act(out.obs, out.mask))
        env.step_into(actions, out)
        if self._policy is not None and self._policy.restart is not None:
            self._policy.restart(out.terminated | out.truncated)
        return actions


def _mean_length(env: SnakeVecEnv) -> float:
    return float(env.peek()["length"].mean())


def _check(recording: Recording, env: NativeVecEnv) -> None:
    end, episodes, expected = end_of(env), env.drain_stats(), recording.episodes
    pairs = [(name, end[name], recording.end[name]) for name in recording.end]
    pairs += [
        ("episode env", episodes.env, expected.env),
        ("episode steps", episodes.steps, expected.steps),
        ("episode score", episodes.score, expected.score),
        ("episode cause", episodes.cause, expected.cause),
    ]
    wrong = [name for name, got, wanted in pairs if not np.array_equal(got, wanted)]
    if wrong:
        raise ReplayError(f"The replay differs from the recording: {', '.join(wrong)}.")
