"""`brisk train`: train an agent with settings from defaults, files and flags.

Arguments are parsed twice. The first pass knows the flags of all environments and algorithms and
only finds out which environment and algorithm are selected; the second pass knows exactly theirs.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from briskrl.algos.registry import ALGOS
from briskrl.cli.flags import TRUST, Parser, add_flags, clashes, flag_layer, flag_name
from briskrl.cli.output import print_json
from briskrl.cli.run_command import (
    NEWEST,
    TABLE,
    add_final_episodes,
    add_watch,
    dashboard_beside,
    run_with_progress,
)
from briskrl.cluster.settings import ExecutorConfig, check_for_replicas
from briskrl.cluster.sweep.settings import SeedsConfig
from briskrl.core.aliases import resolve_aliases
from briskrl.core.config import Setting, build, merge, to_dict, to_toml
from briskrl.core.config_file import Layer, read_file
from briskrl.core.errors import BriskError, ConfigError
from briskrl.core.format import format_columns
from briskrl.envs.registry import ENVS
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import (
    algo_config_class,
    env_config_class,
    resolve,
    steps_in_python,
    zoo_entry_of,
)
from briskrl.training.trust import check_trusted, modules_of, modules_of_run
from briskrl.zoo import PREFIX, recipe_path

OWN = "own"
"""Section of a command's own flags, for commands that also take the flags of training."""

TRAIN, SWEEP = "brisk train", "brisk sweep"
"""The command itself, and one that takes its flags, too."""

OwnFlags = type | Mapping[str, type] | None
"""A command's own config class, or its classes by the names of their tables in a file."""

RESERVED = ("--help", "--config", "--trust", "--print-config", "--json", "--watch")
"""Flags of the command itself; no config class may use them."""
SHARED = ("eval_episodes",)
"""Settings of a command with the name and the meaning of one of the run: a flag sets both."""

EXAMPLES = """\
examples:
  brisk train snake
  brisk train snake --obs flood --algo rainbow --train-steps-ratio quality
  brisk train snake --num-envs 128 --lr 1e-3 --net 256,256 --double --seed 1
  brisk train snake --config zoo:snake_dqn --steps 1e6
  brisk train gym:CartPole-v1 --num-envs 64
  brisk train snake --seeds 5 --jobs 2
  brisk train snake --watch                 with curves and the agent at play in the browser
  brisk train cage2 --algo ppo --replicas 2
  brisk train --config runs/NAME/config.toml --run-dir runs/again
  brisk train snake --algo c51 --print-config > my.toml

Files are TOML, JSON or YAML. `--config` may be repeated; later files override earlier ones, and
flags override files. Before all of them come the tuned settings of the zoo, if it has any for the
environment and the algorithm (`brisk zoo` lists them; --no-zoo leaves them out). Ctrl-C saves a
checkpoint and prints the command that resumes the run.
Names from Stable-Baselines3 and CleanRL work too, such as --learning-rate and --total-timesteps."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The environment and algorithm that the arguments select, and the files they name."""

    env: str | None
    """None if neither the arguments nor a file name an environment."""
    algo: str
    files: list[Layer]


def run(argv: list[str]) -> int:
    """Train, or print the merged settings."""
    config, args = parse_args(argv, own={"sweep": SeedsConfig, "executor": ExecutorConfig})
    _check_executor(config, args.own["sweep"], args.own["executor"])
    if args.print_config:
        if args.json:
            print_json(to_dict(config))
        else:
            print(to_toml(config).rstrip("\n"))
        return 0
    view = NEWEST if args.own["sweep"].seeds is None else TABLE
    with dashboard_beside(config.run_dir, watch=args.watch, as_json=args.json, view=view):
        return _train(config, args)


def _train(config: TrainConfig, args: argparse.Namespace) -> int:
    """Train one run, in one or several processes, or one for each seed."""
    seeds: SeedsConfig = args.own["sweep"]
    executor: ExecutorConfig = args.own["executor"]
    if seeds.seeds is not None:
        return _train_seeds(config, seeds, args)
    if config.replicas > 1:
        from briskrl.cluster.replicas.run import train as train_replicas

        return run_with_progress(
            lambda reporter: train_replicas(config, reporter=reporter, settings=executor),
            as_json=args.json,
            final_episodes=args.final_episodes,
            opening=_describe_zoo(args),
        )
    from briskrl.training.loop import train

    return run_with_progress(
        lambda reporter: train(config, reporter=reporter),
        as_json=args.json,
        final_episodes=args.final_episodes,
        opening=_describe_zoo(args),
    )


def _describe_zoo(args: argparse.Namespace) -> str:
    """Which tuned settings apply; empty if none do."""
    entry = zoo_entry_of(args.layers)
    if entry is None:
        return ""
    return f"zoo: {entry.name}: {entry.describe()} (--no-zoo for the general defaults)"


def _check_executor(config: TrainConfig, seeds: SeedsConfig, executor: ExecutorConfig) -> None:
    """Check that flags for several runs or replicas are given for these.

    Raises:
        ConfigError: They are not.
    """
    if seeds.seeds is not None:
        return
    if config.eval_every:
        seeds = replace(seeds, eval_episodes=SeedsConfig().eval_episodes)
    if config.replicas > 1:
        check_for_replicas(executor)
        executor = ExecutorConfig()
    if (seeds, executor) != (SeedsConfig(), ExecutorConfig()):
        raise ConfigError(
            "The settings of executors and evaluations (--jobs, --executor, --eval-episodes and "
            "others) are for several runs: add --seeds, or --eval-every for evaluations during "
            "training. One run in several processes: --replicas."
        )


def _train_seeds(config: TrainConfig, seeds: SeedsConfig, args: argparse.Namespace) -> int:
    """Train on several seeds; the run folder becomes that of the sweep."""
    from briskrl.cli.sweep import run_sweep
    from briskrl.cluster.sweep.plan import sweep_info
    from briskrl.cluster.sweep.settings import SweepConfig

    assert seeds.seeds is not None
    settings = SweepConfig(
        seeds=seeds.seeds, eval_episodes=seeds.eval_episodes, sweep_dir=config.run_dir
    )
    config = replace(config, run_dir=None)
    info = sweep_info(config, settings, args.own["executor"])
    return run_sweep(config, info, as_json=args.json)


def parse_args(
    argv: list[str], *, prog: str = TRAIN, own: OwnFlags = None
) -> tuple[TrainConfig, argparse.Namespace]:
    """The complete config for the arguments, and the command's own flags.

    Args:
        argv: The arguments after the command's name.
        prog: The command that takes the flags of training.
        own: Config class of its other flags; its object is the attribute `own` of the namespace.
            Of several classes the attribute holds a dict of their objects, and files may set them,
            too, in tables of these names.

    Returns:
        The config, and the namespace. Its attribute `layers` holds the given settings, in the order
        in which they were merged.

    Raises:
        BriskError: A flag, key, name or value is invalid.
    """
    own_classes = _own_classes(own)
    selection = _select(argv, prog, own_classes)
    parser = _parser(selection, prog, own_classes)
    args = parser.parse(argv)
    flags = flag_layer(args, _classes(selection, own_classes) | own_classes)
    for table in own_classes:
        # One flag for the episodes of evaluations after and during training.
        flags.values |= {k: v for k, v in flags.table(table).items() if k in SHARED}
    args.layers = [*selection.files, flags]
    built: dict[str, Any] = {
        table: build(cls, merge(layer.tables.pop(table, {}) for layer in args.layers))
        for table, cls in own_classes.items()
    }
    args.own = built.get(OWN, built)
    if args.ENV is not None:
        named = flags.values.setdefault("env", Setting(args.ENV, "ENV"))
        if named.value != args.ENV:
            raise ConfigError(f"Two environments: {args.ENV!r} and --env {named.value!r}.")
    config = resolve(args.layers)
    _check_files(args, config, flags)
    return config, args


def _own_classes(own: OwnFlags) -> dict[str, type]:
    if own is None:
        return {}
    return {OWN: own} if isinstance(own, type) else dict(own)


def _check_files(args: argparse.Namespace, config: TrainConfig, flags: Layer) -> None:
    """Check that modules are named by flags, or by files that are only ours.

    Raises:
        ConfigError: A file that others can change names one.
    """
    cls = type(config.env_config)
    given, _ = resolve_aliases(cls, flags.table("env_config"))
    by_flags = {
        *given.get("packages", Setting(())).value,
        *given.get("env_files", Setting(())).value,
        *str(flags.table("algo_config").get("body", Setting("")).value).split(":")[:1],
        *modules_of(flags.values.get("env", Setting("")).value, build(cls, {})),
    }
    others = [module for module in modules_of_run(config) if module not in by_flags]
    # Recipes of the package are as trusted as its code.
    paths = [Path(name) for name in args.config if not name.startswith(PREFIX)]
    check_trusted(paths, others, trust=args.trust, hint=" or name them with --import")


def _select(argv: list[str], prog: str, own: Mapping[str, type]) -> Selection:
    parser = Parser(prog, "")
    _add_own(parser)
    for table, cls in own.items():
        add_flags(parser, cls, section=table)
    seen: set[str] = set(parser._option_string_actions)
    for cls in _all_classes():
        add_flags(parser, cls, section=cls.__name__, taken=seen)
        seen |= set(parser._option_string_actions)
    without_help = [word for word in argv if word not in ("-h", "--help")]
    args, _ = parser.parse_known_args(without_help)
    files = [read_file(recipe_path(path)) for path in args.config]
    env = args.ENV or _named("env", args, files)
    algo = _named("algo", args, files) or TrainConfig().algo
    return Selection(env=env, algo=algo, files=files)


def _named(field: str, args: argparse.Namespace, files: list[Layer]) -> str | None:
    """The name given by a flag or the last file; None if it is not a string."""
    flag = getattr(args, f"TrainConfig:{field}", None)
    given = [layer.values[field].value for layer in files if field in layer.values]
    name = flag if flag is not None else (given[-1] if given else None)
    return name if isinstance(name, str) else None


def _all_classes() -> list[type]:
    found = [env_config_class(name) for name in ENVS] + [algo_config_class(name) for name in ALGOS]
    return [TrainConfig, *dict.fromkeys(found)]


def _classes(selection: Selection, own: Mapping[str, type]) -> dict[str, type]:
    env, algo = selection.env or TrainConfig().env, selection.algo
    found = {
        "": TrainConfig,
        "env_config": env_config_class(env),
        "algo_config": algo_config_class(algo),
    }
    twice = clashes([*own.values(), *found.values()], RESERVED)
    twice = [flag for flag in twice if flag not in map(flag_name, SHARED)]
    if twice:
        raise BriskError(
            f"The environment {env!r} and the algorithm {algo!r} cannot be used together on the "
            f"command line: more than one of them, the run or the command defines "
            f"{', '.join(twice)}."
        )
    return found


def _parser(selection: Selection, prog: str, own: Mapping[str, type]) -> Parser:
    env, algo = selection.env or TrainConfig().env, selection.algo
    classes = _classes(selection, own)
    parser = Parser(prog, _description(selection), EXAMPLES)
    _add_own(parser)
    for table, cls in own.items():
        add_flags(parser, cls, section=table)
    group = parser.add_argument_group("run")
    defined = set(parser._option_string_actions)
    taken = [flag for flag in map(flag_name, SHARED) if flag in defined]
    entry, in_python = ALGOS.get(algo), steps_in_python(env)
    run_preset = entry.run_defaults(in_python=in_python)
    add_flags(group, classes[""], preset=run_preset, preset_name=algo, taken=taken)
    # Without an environment the help is short, but the flags still work.
    hidden = selection.env is None
    group = parser.add_argument_group(f"environment {env}")
    add_flags(group, classes["env_config"], section="env_config", hidden=hidden)
    add_flags(
        parser.add_argument_group(f"algorithm {algo}"),
        classes["algo_config"],
        section="algo_config",
        preset=entry.algo_defaults(in_python=in_python),
        preset_name=algo,
        hidden=hidden,
    )
    return parser


def _add_own(parser: Parser) -> None:
    parser.usage = f"{parser.prog} ENV [options]"
    parser.add_argument("ENV", nargs="?", help="environment; may be given in a file instead")
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="read settings from a .toml, .json or .yaml file, or a recipe of the zoo (zoo:NAME); "
        "may be repeated",
    )
    parser.add_argument("--trust", action="store_true", help=TRUST)
    parser.add_argument(
        "--print-config", action="store_true", help="print the merged settings as TOML and exit"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object at the end; progress goes to standard error",
    )
    if parser.prog == TRAIN:
        add_final_episodes(parser)
    if parser.prog in (TRAIN, SWEEP):
        add_watch(parser)


def _description(selection: Selection) -> str:
    envs = format_columns([(name, ENVS.get(name).summary) for name in ENVS])
    algos = format_columns([(name, ALGOS.get(name).summary) for name in ALGOS])
    if selection.env is None:
        more = "To list the options of one combination: brisk train snake --algo rainbow --help"
    else:
        more = f"Options of the run, the environment {selection.env} and {selection.algo} follow."
    return (
        "Train an agent. The run folder holds its settings, metrics, checkpoints and policy."
        f"\n\nenvironments:\n{envs}\n\nalgorithms (--algo):\n{algos}\n\n{more}"
    )
