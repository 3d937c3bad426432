"""Who plays in `brisk eval` and `brisk play`: a run's policy, or a simple player."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briskrl.cli.flags import Parser, add_flags, flag_layer
from briskrl.cli.targets import find_target
from briskrl.core.config import config_error, try_build
from briskrl.core.errors import ConfigError, nearest
from briskrl.envs.registry import ENVS
from briskrl.training.resolve import env_config_class

if TYPE_CHECKING:
    from briskrl.core.spec import EnvSpec
    from briskrl.core.types import Array, Bools
    from briskrl.training.evaluate import Agent

RANDOM = "random"
"""The player that every environment has."""


@dataclass(frozen=True, slots=True)
class ParsedArgs:
    """What `eval` and `play` were asked to do."""

    target: Path | str
    """A run folder, or the name of an environment."""
    options: Any
    """The command's own settings."""
    env_config: Any
    """Settings of the environment, if the target is one."""
    args: argparse.Namespace


def parse_args(parser: Parser, argv: list[str], options: type) -> ParsedArgs:
    """Parse a target, the command's own flags and, for an environment, its flags.

    Args:
        parser: With the command's switches already added.
        argv: The words after the command's name.
        options: Config class of the command's own flags.
    """
    told = "run folder (or its name under runs/), or an environment"
    parser.add_argument("TARGET", metavar="RUN|ENV", help=told)
    add_flags(parser, options)
    target = _target(parser, argv)
    classes = {"": options}
    if isinstance(target, str):
        classes["env_config"] = env_config_class(target)
        group = parser.add_argument_group(f"environment {target}")
        add_flags(group, classes["env_config"], section="env_config")
    args = parser.parse(argv)
    layer = flag_layer(args, classes)
    chosen, problems = try_build(options, layer.values)
    env: Any = None
    if isinstance(target, str):
        env, more = try_build(classes["env_config"], layer.table("env_config"))
        problems += more
    if problems:
        raise config_error(problems)
    assert target is not None
    return ParsedArgs(target, chosen, env, args)


def load_agent(parsed: ParsedArgs, player: str, seed: int) -> tuple[Agent, str]:
    """The player the words ask for, and what to call it.

    Raises:
        ConfigError: A simple player was asked to replace a run's policy, or there is none.
    """
    from briskrl.training.evaluate import Agent, load_policy

    if isinstance(parsed.target, Path):
        if player != "auto":
            raise ConfigError(
                f"--player {player} is for environments; {parsed.target} has a policy of its own."
            )
        return load_policy(parsed.target), str(parsed.target)
    env, config = parsed.target, parsed.env_config
    players = ENVS.get(env).players
    if player == "auto":
        player = next(iter(players), RANDOM)
    if player == RANDOM:
        return Agent(RandomPolicy(env, config, seed), env, config), player
    if player not in players:
        known = nearest(player, [*players, RANDOM])
        raise ConfigError(f"The environment {env!r} has no player {player!r}. {known}")
    chosen = players[player]
    return Agent(chosen.policy(), env, replace(config, **chosen.needs)), player


def _target(parser: Parser, argv: list[str]) -> Path | str | None:
    """What the first plain word means; None if only the help is wanted."""
    parsed = [word for word in argv if word not in ("-h", "--help")]
    if parsed != argv:
        plain = [word for word in parsed if not word.startswith("-")]
        return find_target(plain[0]) if plain else None
    return find_target(parser.parse_known_args(argv)[0].TARGET)


class RandomPolicy:
    """Takes any legal action with equal chance."""

    restart = None

    def __init__(self, env: str, config: Any, seed: int) -> None:
        from briskrl.core.rng import Streams
        from briskrl.envs.make import make_env

        probe = make_env(env, 1, config=config, hold_ended=True)
        self._action = probe.env_spec.action
        probe.close()
        self._rng = Streams(seed)["random player"]

    def fitted(self, spec: EnvSpec) -> RandomPolicy:
        """The same player, which needs no network of the right size."""
        return self

    def act(self, obs: Array, mask: Bools | None) -> Array:
        """Actions (N,) or (N, D) for observations (N, *obs)."""
        import numpy as np

        from briskrl.core.spec import BoxSpec, DiscreteSpec, MultiDiscreteSpec

        action, count = self._action, len(obs)
        if isinstance(action, BoxSpec):
            # A space without bounds has no equal chances; a few units are as good as any.
            low, high = max(action.low, -10.0), min(action.high, 10.0)
            return self._rng.uniform(low, high, (count, *action.shape)).astype(np.float32)
        if isinstance(action, MultiDiscreteSpec):
            return self._rng.integers(0, action.nvec, (count, len(action.nvec)))
        if mask is None and isinstance(action, DiscreteSpec):
            return self._rng.integers(0, action.n, count)
        legal = np.ones((count, action.n), np.bool_) if mask is None else mask
        # A row without legal actions may take any.
        legal = np.where(legal.any(1, keepdims=True), legal, True)
        weights = self._rng.random(legal.shape) * legal
        if isinstance(action, DiscreteSpec):
            best: Array = weights.argmax(1)
            return best
        order = np.argsort(-weights, axis=1)[:, : action.k]
        several: Array = np.full((count, action.k), -1)
        several[:, : order.shape[1]] = np.where(np.take_along_axis(legal, order, axis=1), order, -1)
        return several
