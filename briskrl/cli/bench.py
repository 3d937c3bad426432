"""`brisk bench`: find the benchmark, parse its options, print its figures.

Help, settings and measurement of every benchmark are in its own module in `briskrl/bench`, or where
`ELSEWHERE` says; in `benchmarks` for those that need a checkout of the repository.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from typing import Any

from briskrl.bench.command import BenchCommand, TrainBenchCommand
from briskrl.cli.flags import Parser, add_flags, flag_layer, flag_name
from briskrl.cli.tables import print_result
from briskrl.core.aliases import field_aliases
from briskrl.core.config import build, field_hints
from briskrl.core.errors import BriskError, ConfigError, nearest
from briskrl.core.format import format_columns
from briskrl.core.registry import load_from_checkout
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import env_config_class

COMMANDS = {
    "env": "steps per second of the environment alone",
    "train": "the whole training loop: speed, phases, steadiness, memory",
    "legacy": "ours compared with the slow loop that briskrl replaced",
    "peers": "ours compared with Stable-Baselines3, SBX, JAX, PufferLib, Sample Factory...",
    "rollout": "collecting a rollout compared with acting and stepping alone",
    "backends": "worker processes for Gymnasium environments compared with Gymnasium's own",
    "env-share": "how much an environment slows training, at equal networks",
    "engines": "the fused engine compared with torch, and two threads with one",
    "ratio": "cost and benefit of each preset of --train-steps-ratio",
    "workflow": "training under workflows compared with plain PPO",
    "cluster": "many runs at the same time, and replicas of one run: local and Ray",
    "machine": "peak rates of this machine, the reference of later runs",
}
CHECKOUT_COMMANDS = ("legacy", "peers")
"""Benchmarks in the `benchmarks` folder of the repository."""
ELSEWHERE = {
    "cluster": "briskrl.cluster.bench.command",
    "workflow": "briskrl.workflows.bench.command",
}
"""Modules of benchmarks of layers above `briskrl.bench`."""

OVERVIEW = """\
examples:
  brisk bench env snake --obs flood
  brisk bench train snake --steps 5e5
  brisk bench legacy --json
  brisk bench peers

Compare CPU seconds rather than wall seconds: they depend less on the load of the machine.
`brisk bench COMMAND --help` explains what is measured, benchmarks/README.md the methods."""


def run(argv: list[str]) -> int:
    """Run one benchmark and print its figures."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_help())
        return 0
    name, rest = argv[0], argv[1:]
    if name not in COMMANDS:
        raise BriskError(f"Unknown benchmark {name!r}. {nearest(name, COMMANDS)}")
    if name == "env":
        return _run_env(rest)
    command = _load(name)
    if isinstance(command, TrainBenchCommand):
        return _run_train(name, command, rest)
    return _run_plain(name, command, rest)


def _help() -> str:
    table = format_columns(list(COMMANDS.items()))
    return f"usage: brisk bench COMMAND ...\n\nMeasure speed.\n\ncommands:\n{table}\n\n{OVERVIEW}"


def _load(name: str) -> BenchCommand | TrainBenchCommand:
    if name in CHECKOUT_COMMANDS:
        module = load_from_checkout(f"benchmarks.{name}.compare", f"brisk bench {name}")
    else:
        module = import_module(ELSEWHERE.get(name, f"briskrl.bench.{name.replace('-', '_')}"))
    command: BenchCommand | TrainBenchCommand = module.COMMAND
    return command


def _run_plain(name: str, command: BenchCommand, argv: list[str]) -> int:
    args = _parser(name, command).parse(argv)
    settings: Any = build(command.settings, flag_layer(args, {"": command.settings}).values)
    measure = partial(command.measure, settings)
    return print_result(
        partial(measure, _print_progress) if command.reports else measure,
        as_json=args.json,
        cpu_seconds=command.cpu_seconds(settings),
    )


def _run_env(argv: list[str]) -> int:
    """Run `brisk bench env`, which also takes the options of the environment."""
    if "wildfire" in argv:
        from briskrl.bench.wildfire import COMMAND as WILDFIRE

        argv = [word for word in argv if word != "wildfire"]
        return _run_plain("env wildfire", WILDFIRE, argv)
    from briskrl.bench.env import COMMAND, EnvBench

    parser = _parser("env", COMMAND, positional="ENV ")
    parser.add_argument("ENV", nargs="?", default="snake", help="environment")
    wants_help = {"-h", "--help"} & set(argv)
    name = "snake" if wants_help else parser.parse_known_args(argv)[0].ENV
    classes: dict[str, type] = {"": EnvBench}
    if name != "snake":
        classes["env_config"] = env_config_class(name)
        own = [flag_name(field) for field in field_hints(EnvBench)]
        add_flags(parser, classes["env_config"], section="env_config", taken=own)
    args = parser.parse(argv)
    layer = flag_layer(args, classes)
    bench = build(EnvBench, layer.values)
    given = [field for field in ("obs", "height", "width") if field in layer.values]
    if given and name != "snake":
        raise ConfigError(f"--{given[0]} is an option of snake, not of {name}.")
    env_config: Any = None
    if name != "snake":
        env_config = build(classes["env_config"], layer.table("env_config"))
    elif "player" in layer.values:
        raise ConfigError("--player is not an option of snake, which its heuristic always plays.")
    return print_result(
        lambda: COMMAND.measure(bench, name, env_config),
        as_json=args.json,
        cpu_seconds=COMMAND.cpu_seconds(bench),
    )


def _run_train(name: str, command: TrainBenchCommand, argv: list[str]) -> int:
    """Run a benchmark that takes the options of `brisk train`."""
    if "-h" in argv or "--help" in argv:
        print(_train_parser(name, command).format_help())
        return 0
    from briskrl.cli.train import parse_args

    flags = {word.partition("=")[0] for word in argv}
    reserved = [flag for flag in command.reserved_flags if flag in flags]
    if reserved:
        raise ConfigError(f"brisk bench {name} does not take {reserved[0]}: leave it out.")
    if not flags & {"--config", *_names_of(command.default_flags[0])}:
        argv = [*argv, *command.default_flags]
    config, args = parse_args(argv, prog=f"brisk bench {name}", own=command.settings)
    settings = args.own if command.settings is not None else None
    return print_result(
        lambda: _measure_and_plot(command, config, settings),
        as_json=args.json,
        cpu_seconds=command.cpu_seconds(config, settings),
        to_text=command.to_text,
    )


def _measure_and_plot(command: TrainBenchCommand, config: TrainConfig, settings: Any) -> Any:
    from briskrl.bench.ratio import RatioBench

    path = settings.plot if isinstance(settings, RatioBench) else None
    if path is None:
        return command.measure(config, settings, _print_progress)
    from briskrl.plots import check_plot_path, ratio_curves

    check_plot_path(path)
    figures = command.measure(config, settings, _print_progress)
    ratio_curves(figures, path)
    return figures


def _names_of(flag: str) -> set[str]:
    """A flag of `brisk train` and its aliases."""
    aliases = field_aliases(TrainConfig).items()
    return {flag} | {flag_name(alias) for alias, field in aliases if flag_name(field) == flag}


def _parser(name: str, command: BenchCommand, *, positional: str = "") -> Parser:
    parser = Parser(f"brisk bench {name}", command.description, command.examples)
    parser.usage = f"brisk bench {name} {positional}[options]"
    add_flags(parser, command.settings)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _train_parser(name: str, command: TrainBenchCommand) -> Parser:
    parser = Parser(f"brisk bench {name}", command.description, command.examples)
    parser.usage = f"brisk bench {name} ENV [options of brisk train] [options]"
    if command.settings is not None:
        add_flags(parser, command.settings)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
