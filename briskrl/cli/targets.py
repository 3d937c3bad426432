"""Targets of commands: a run folder or an environment, and the policy that plays it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briskrl.cli.flags import BEST, TRUST, Parser, add_flags, flag_layer, flag_name
from briskrl.core.config import config_error, field_hints, try_build
from briskrl.core.errors import ConfigError, RunFolderError, nearest
from briskrl.envs.registry import ENVS
from briskrl.training.resolve import env_config_class

if TYPE_CHECKING:
    from briskrl.training.evaluate import Agent

RUNS = Path("runs")
"""Where run folders are created unless `--run-dir` names another place."""
CONFIG_TOML, WORKFLOW_TOML = "config.toml", "workflow.toml"
"""Files by which the folder of a run, and that of a run under workflows, are known."""
RANDOM = "random"
"""The player that every environment has."""


def run_folders(root: Path = RUNS) -> list[Path]:
    """The run folders under a folder, newest first; a run folder holds a config.toml.

    Raises:
        RunFolderError: The folder cannot be listed.
    """
    try:
        folders = list(root.iterdir()) if root.is_dir() else []
    except OSError as error:
        raise RunFolderError(f"The folder {root} cannot be read: {error.strerror}.") from error
    # A config.toml that is a link to nowhere makes a damaged run folder, but still one.
    found = [folder for folder in folders if os.path.lexists(folder / "config.toml")]
    return sorted(found, key=_modified, reverse=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        # Deleted since it was listed.
        return 0.0


def find_run(argument: str) -> Path:
    """The run folder for an argument: a path, or a name under runs/.

    Raises:
        RunFolderError: There is none; the message suggests the nearest names.
    """
    folder = find_folder(argument)
    if folder is None:
        raise RunFolderError(f"{argument} is not a run folder. {_hint(argument, [])}")
    return folder


def find_target(argument: str, marks: Sequence[str] = (CONFIG_TOML,)) -> Path | str:
    """The run folder for an argument, or else the environment of that name.

    Args:
        argument: A path, a name under runs/, or an environment.
        marks: Files of which a run folder has one.

    Raises:
        RunFolderError: It is neither.
    """
    folder = find_folder(argument, marks)
    if folder is not None:
        return folder
    if argument in ENVS:
        return argument
    raise RunFolderError(
        f"{argument} is neither a run folder nor an environment. {_hint(argument, ENVS)}"
    )


def find_folder(argument: str, marks: Sequence[str] = (CONFIG_TOML,)) -> Path | None:
    """The run folder for an argument; None if there is none."""
    for folder in (Path(argument), RUNS / argument):
        if any((folder / mark).is_file() for mark in marks):
            return folder
    return None


def _hint(argument: str, others: Iterable[str]) -> str:
    names = [str(path) for path in run_folders()] + list(others)
    return (
        nearest(argument, names) if names else "There are no runs yet; `brisk train` creates one."
    )


@dataclass(frozen=True, slots=True)
class ParsedArgs:
    """The parsed arguments of `eval` and `play`."""

    target: Path | str
    """A run folder, or the name of an environment."""
    options: Any
    """The command's own settings."""
    env_config: Any
    """Settings of the environment, if the target is one."""
    args: argparse.Namespace


def parse_args(
    parser: Parser, argv: list[str], options: type, *, marks: Sequence[str] = (CONFIG_TOML,)
) -> ParsedArgs:
    """Parse a target, the command's own flags and, for an environment, its flags.

    Args:
        parser: A parser that has the command's other flags already.
        argv: The arguments after the command's name.
        options: Config class of the command's own flags; those of the environment with equal names
            are left out.
        marks: Files of which a run folder has one.
    """
    text = "run folder (or its name under runs/), or an environment"
    parser.add_argument("TARGET", metavar="RUN|ENV", help=text)
    parser.add_argument("--best", action="store_true", help=BEST)
    parser.add_argument("--trust", action="store_true", help=TRUST)
    add_flags(parser, options)
    target = _target(parser, argv, marks)
    classes = {"": options}
    if isinstance(target, str):
        classes["env_config"] = env_config_class(target)
        group = parser.add_argument_group(f"environment {target}")
        taken = [flag_name(name) for name in field_hints(options)]
        add_flags(group, classes["env_config"], section="env_config", taken=taken)
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
    """The policy of a run or the player of an environment, and its name.

    Raises:
        ConfigError: A player was given for a run, or the environment has no such player.
    """
    from briskrl.training.evaluate import Agent, load_policy
    from briskrl.training.random_policy import RandomPolicy

    if isinstance(parsed.target, Path):
        if player != "auto":
            raise ConfigError(
                f"--player {player} is for environments; {parsed.target} has its own policy."
            )
        args = parsed.args
        return load_policy(parsed.target, best=args.best, trust=args.trust), str(parsed.target)
    if parsed.args.best:
        raise ConfigError(f"--best is for runs; {parsed.target} is an environment.")
    env, config = parsed.target, parsed.env_config
    players = ENVS.get(env).players
    if player == "auto":
        player = next(iter(players), RANDOM)
    if player == RANDOM:
        return Agent(RandomPolicy.of_env(env, config, seed), env, config), player
    if player not in players:
        known = nearest(player, [*players, RANDOM])
        raise ConfigError(f"The environment {env!r} has no player {player!r}. {known}")
    chosen = players[player]
    return Agent(chosen.policy(), env, replace(config, **chosen.needs)), player


def _target(parser: Parser, argv: list[str], marks: Sequence[str]) -> Path | str | None:
    """The target among the arguments; None if there is only a request for help."""
    words = [word for word in argv if word not in ("-h", "--help")]
    if words != argv:
        plain = [word for word in words if not word.startswith("-")]
        return find_target(plain[0], marks) if plain else None
    return find_target(parser.parse_known_args(argv)[0].TARGET, marks)
