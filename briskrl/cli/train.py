"""`brisk train`: one run from defaults, files and flags.

Words are read twice. The first reading knows the flags of every registered environment and
algorithm and only finds out which of them are meant; the second knows exactly theirs.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass

from briskrl.algos.registry import ALGOS
from briskrl.cli.flags import Parser, add_flags, clashes, flag_layer
from briskrl.core.config import Setting, build, to_dict, to_toml
from briskrl.core.config_file import Layer, read_file
from briskrl.core.errors import BriskError, ConfigError
from briskrl.core.format import format_columns
from briskrl.envs.registry import ENVS
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import algo_config_class, env_config_class, resolve

OWN = "own"
"""Section of the flags of commands that take those of training besides."""

RESERVED = ("--help", "--config", "--print-config", "--json")
"""Flags of the command itself, which no config class may use."""

EXAMPLES = """\
examples:
  brisk train snake
  brisk train snake --obs flood --algo rainbow --train-steps-ratio quality
  brisk train snake --num-envs 128 --lr 1e-3 --net 256,256 --double --seed 1
  brisk train snake --config configs/snake_dqn.toml --steps 1e6
  brisk train gym:CartPole-v1 --num-envs 64
  brisk train --config runs/NAME/config.toml --run-dir runs/again
  brisk train snake --algo c51 --print-config > my.toml

Files are TOML, JSON or YAML; `--config` may be repeated, later files win, flags win over files.
Ctrl-C saves and prints the command that continues."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a first look at the words tells."""

    env: str | None
    """None if neither the words nor a file name an environment."""
    algo: str
    files: list[Layer]


def run(argv: list[str]) -> int:
    """Train, or print the settings that would be trained with."""
    config, args = parse_args(argv)
    if args.print_config:
        print(json.dumps(to_dict(config)) if args.json else to_toml(config).rstrip("\n"))
        return 0
    from briskrl.cli.run_command import run_with_progress
    from briskrl.training.loop import train

    return run_with_progress(lambda reporter: train(config, reporter=reporter), as_json=args.json)


def parse_args(
    argv: list[str], *, prog: str = "brisk train", own: type | None = None
) -> tuple[TrainConfig, argparse.Namespace]:
    """The complete config that the words ask for, and the command's own flags.

    Args:
        argv: The words after the command's name.
        prog: The command that takes the flags of training.
        own: Config class of its further flags; what they say is in `own` of the second result.

    Raises:
        BriskError: A flag, key, name or value cannot be used.
    """
    choice = _look(argv, own)
    parser = _parser(choice, prog, own)
    args = parser.parse(argv)
    classes = _classes(choice.env or TrainConfig().env, choice.algo)
    flags = flag_layer(args, classes if own is None else classes | {OWN: own})
    if own is not None:
        args.own = build(own, flags.tables.pop(OWN, {}))
    if args.ENV is not None:
        named = flags.values.setdefault("env", Setting(args.ENV, "ENV"))
        if named.value != args.ENV:
            raise ConfigError(f"Two environments: {args.ENV!r} and --env {named.value!r}.")
    return resolve([*choice.files, flags]), args


def _look(argv: list[str], own: type | None) -> Choice:
    parser = Parser("brisk train", "")
    _add_own(parser)
    if own is not None:
        add_flags(parser, own, section=OWN)
    seen: set[str] = set(parser._option_string_actions)
    for cls in _all_classes():
        add_flags(parser, cls, section=cls.__name__, taken=seen)
        seen |= set(parser._option_string_actions)
    words = [word for word in argv if word not in ("-h", "--help")]
    args, _ = parser.parse_known_args(words)
    files = [read_file(path) for path in args.config]
    env = args.ENV or _named("env", args, files)
    algo = _named("algo", args, files) or TrainConfig().algo
    return Choice(env=env, algo=algo, files=files)


def _named(field: str, args: argparse.Namespace, files: list[Layer]) -> str | None:
    """The name a flag or the last file gives; wrong types are left to the validator."""
    flag = getattr(args, f"TrainConfig:{field}", None)
    given = [layer.values[field].value for layer in files if field in layer.values]
    name = flag if flag is not None else (given[-1] if given else None)
    return name if isinstance(name, str) else None


def _all_classes() -> list[type]:
    found = [env_config_class(name) for name in ENVS] + [algo_config_class(name) for name in ALGOS]
    return [TrainConfig, *dict.fromkeys(found)]


def _classes(env: str, algo: str) -> dict[str, type]:
    found = {
        "": TrainConfig,
        "env_config": env_config_class(env),
        "algo_config": algo_config_class(algo),
    }
    twice = clashes(found.values(), RESERVED)
    if twice:
        raise BriskError(
            f"The environment {env!r} and the algorithm {algo!r} cannot be used together on the "
            f"command line: both or the run define {', '.join(twice)}."
        )
    return found


def _parser(choice: Choice, prog: str, own: type | None) -> Parser:
    env, algo = choice.env or TrainConfig().env, choice.algo
    classes = _classes(env, algo)
    parser = Parser(prog, _description(choice), EXAMPLES)
    _add_own(parser)
    if own is not None:
        add_flags(parser, own, section=OWN)
    group = parser.add_argument_group("run")
    add_flags(group, classes[""], preset=ALGOS.get(algo).run_preset, preset_name=algo)
    # Without an environment the help stays short; the flags work all the same.
    hidden = choice.env is None
    group = parser.add_argument_group(f"environment {env}")
    add_flags(group, classes["env_config"], section="env_config", hidden=hidden)
    add_flags(
        parser.add_argument_group(f"algorithm {algo}"),
        classes["algo_config"],
        section="algo_config",
        preset=ALGOS.get(algo).preset,
        preset_name=algo,
        hidden=hidden,
    )
    return parser


def _add_own(parser: Parser) -> None:
    parser.usage = "brisk train ENV [options]"
    parser.add_argument("ENV", nargs="?", help="environment; may be left to a file")
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="read settings from a .toml, .json or .yaml file; may be repeated",
    )
    parser.add_argument(
        "--print-config", action="store_true", help="print the merged settings as TOML and stop"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object at the end; progress goes to standard error",
    )


def _description(choice: Choice) -> str:
    envs = format_columns([(name, ENVS.get(name).summary) for name in ENVS])
    algos = format_columns([(name, ALGOS.get(name).summary) for name in ALGOS])
    if choice.env is None:
        more = "Options of both: brisk train snake --algo rainbow --help"
    else:
        more = f"Below: the run, the environment {choice.env}, the algorithm {choice.algo}."
    return (
        "Train an agent. The run folder keeps everything: settings, metrics, checkpoints, policy."
        f"\n\nenvironments:\n{envs}\n\nalgorithms (--algo):\n{algos}\n\n{more}"
    )
