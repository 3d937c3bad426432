"""`brisk sweep`: train with other settings or seeds, many times, and compare the results."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briskrl.cli.flags import TRUST, Parser, add_flags, flag_layer
from briskrl.cli.output import print_json
from briskrl.cli.progress import command_name, progress_stream
from briskrl.cli.run_command import EXIT_CODES, add_watch, dashboard_beside
from briskrl.cli.train import SWEEP, parse_args
from briskrl.cluster.settings import ExecutorConfig
from briskrl.cluster.sweep.folder import OWN_TABLES, ROOT, merge_layers, read_sweep, sweep_toml
from briskrl.cluster.sweep.plan import make_plan, sweep_info
from briskrl.core.config import build, field_hints, settings
from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.core.text_values import parse_value

if TYPE_CHECKING:
    import argparse

    from briskrl.cluster.sweep.folder import SweepInfo
    from briskrl.cluster.sweep.outcome import SweepResult
    from briskrl.cluster.sweep.plan import Plan
    from briskrl.cluster.sweep.reporter import SweepReporter
    from briskrl.cluster.sweep.run import Stop
    from briskrl.training.config import TrainConfig

HELP = """\
Train with other settings or seeds, many times, and compare the results.

A grid tries every combination of values; a search lets Optuna choose the values of each trial by
the results of those before. Every trial runs on the same seeds, and its value is the mean of the
metric over them. All options of `brisk train` work as well; they hold for all trials.

The folder holds sweep.toml (all settings), trials.jsonl (what happened), runs/ (a run folder per
trial and seed), best.toml (for `brisk train --config`) and report.md. A sweep that was stopped,
or killed at any moment, continues with `brisk sweep resume DIR`.

The best of many trials looks better than it is, because its score was selected. --confirm-seeds
runs it again on seeds that had no part in the selection."""

EXAMPLES = """\
examples:
  brisk sweep snake --algo dqn --grid train_steps_ratio=0.004,0.03125,0.25 --seeds 5
  brisk sweep snake --grid lr=1e-4,1e-3 --grid "net=64,64|128,128" --seeds 3 --dry-run
  brisk sweep snake --search tpe --trials 40 --range lr=1e-4..1e-2:log \\
      --choice "net=64,64|128,128" --prune hyperband --confirm-seeds 5
  brisk sweep --config sweep.toml --jobs 4
  brisk sweep snake --grid lr=1e-4,1e-3 --seeds 3 --watch
  brisk sweep show sweeps/NAME
  brisk sweep resume sweeps/NAME --trials 20

In a file, these options are in a table [sweep], those of the executor in a table [executor].
Exit codes: as of brisk train, and 4 if too many runs have failed."""

FAILURES_EXIT = 4
"""Exit code of a sweep that has stopped because runs failed."""


@dataclass(frozen=True, slots=True)
class SweepCommand:
    """Flags of the command alone."""

    dry_run: bool = False
    """Print the plan and how long it takes, after training a few seconds; run nothing."""


def run(argv: list[str]) -> int:
    """Run, continue or show a sweep."""
    if argv and argv[0] in ("resume", "show"):
        return (_resume if argv[0] == "resume" else _show)(argv[1:])
    if not argv or "-h" in argv or "--help" in argv:
        print(_parser().format_help())
        return 0
    config, args = parse_args(argv, prog=SWEEP, own={**OWN_TABLES, "command": SweepCommand})
    _check_env(args)
    if config.run_dir is not None:
        raise ConfigError("The runs are in the folder of the sweep; name it with --sweep-dir.")
    given = merge_layers(args.layers)
    info = sweep_info(config, args.own["sweep"], args.own["executor"], given)
    plan = make_plan(info)
    if args.print_config:
        print(sweep_toml(info).rstrip("\n"))
        return 0
    if args.own["command"].dry_run:
        return _print_plan(info, plan, as_json=args.json)
    with dashboard_beside(info.settings.sweep_dir, watch=args.watch, as_json=args.json):
        return run_sweep(config, info, given=given, as_json=args.json)


def run_sweep(config: TrainConfig, info: SweepInfo, *, given: Any = None, as_json: bool) -> int:
    """Run a new sweep with progress and a summary; returns the exit code."""
    from briskrl.cluster.sweep.run import sweep

    return _with_progress(
        lambda reporter, stop: sweep(
            config, info.settings, info.executor, given=given, reporter=reporter, stop=stop
        ),
        as_json=as_json,
    )


def _with_progress(work: Callable[[SweepReporter, Stop], SweepResult], *, as_json: bool) -> int:
    from briskrl.cli.sweep_progress import make_reporter
    from briskrl.cli.sweep_summary import summary
    from briskrl.training.hooks import StopRequest

    stream = progress_stream(as_json=as_json)
    reporter = make_reporter(stream)
    try:
        with redirect_stdout(stream), StopRequest() as request:
            result = work(reporter, lambda: request.requested)
    finally:
        reporter.close()
    print(summary(result), file=stream, flush=True)
    if as_json:
        print_json(result.as_json())
    if (command := resume_command(result)) is not None:
        # The last line, so that it is found.
        print(command, file=stream, flush=True)
    return exit_code(result)


def exit_code(result: SweepResult) -> int:
    """The exit code of a sweep."""
    nothing_works = result.count("failed") > 0 and result.count("done") == 0
    if result.stopped == "failures" or (result.stopped == "finished" and nothing_works):
        return FAILURES_EXIT
    return EXIT_CODES.get(result.stopped, 0)


def resume_command(result: SweepResult) -> str | None:
    """The command that continues a sweep or repeats its failed runs; None if there is none."""
    # A search has learned from its failures.
    repeats = result.count("failed") > 0 and result.info.settings.search is None
    if result.stopped == "running" or (result.stopped == "finished" and not repeats):
        return None
    retry = " --retry-failed" if repeats and result.stopped in ("failures", "finished") else ""
    return f"{command_name()} sweep resume {shlex.quote(str(result.info.folder))}{retry}"


def _resume(argv: list[str]) -> int:
    parser = Parser("brisk sweep resume", "Continue a sweep that was stopped or killed.")
    parser.usage = "brisk sweep resume DIR [options]"
    parser.add_argument("DIR", help="folder of the sweep, or its name under sweeps/")
    parser.add_argument("--trials", metavar="N", help="trials to add to a search")
    parser.add_argument(
        "--retry-failed", action="store_true", help="run the failed runs of a grid again"
    )
    parser.add_argument("--trust", action="store_true", help=TRUST)
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    add_watch(parser)
    add_flags(parser.add_argument_group("executor"), ExecutorConfig, section="executor")
    args = parser.parse(argv)
    folder = find_sweep(args.DIR)
    trials = 0 if args.trials is None else _count(args.trials)
    info = read_sweep(folder)
    new = flag_layer(args, {"executor": ExecutorConfig}).table("executor")
    known = {name: getattr(info.executor, name) for name in field_hints(ExecutorConfig)}
    executor = build(ExecutorConfig, settings(known) | new)
    from briskrl.cluster.sweep.run import resume_sweep

    with dashboard_beside(folder, watch=args.watch, as_json=args.json):
        return _with_progress(
            lambda reporter, stop: resume_sweep(
                folder,
                more_trials=trials,
                retry_failed=args.retry_failed,
                executor=executor,
                trust=args.trust,
                reporter=reporter,
                stop=stop,
            ),
            as_json=args.json,
        )


def _show(argv: list[str]) -> int:
    parser = Parser("brisk sweep show", "Show the trials of a sweep, also while it runs.")
    parser.usage = "brisk sweep show DIR [--json]"
    parser.add_argument("DIR", help="folder of the sweep, or its name under sweeps/")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse(argv)
    folder = find_sweep(args.DIR)
    from briskrl.cli.sweep_summary import summary
    from briskrl.cluster.sweep.run import read_result
    from briskrl.training.storage.run_files import RunFiles

    result = read_result(folder)
    if RunFiles(folder).is_locked():
        result = replace(result, stopped="running")
    if args.json:
        print_json(result.as_json())
        return 0
    print(summary(result), flush=True)
    if (command := resume_command(result)) is not None:
        print(command, flush=True)
    return 0


def find_sweep(argument: str) -> Path:
    """The folder of a sweep for an argument: a path, or a name under sweeps/.

    Raises:
        RunFolderError: There is none.
    """
    for folder in (Path(argument), ROOT / argument):
        if (folder / "sweep.toml").is_file():
            return folder
    listed = sorted(ROOT.glob("*/sweep.toml")) if ROOT.is_dir() else []
    names = ", ".join(str(path.parent) for path in listed[-5:])
    known = f"Known: {names}." if names else f"There are none in {ROOT}."
    raise RunFolderError(f"{argument} is not the folder of a sweep. {known}")


def _check_env(args: argparse.Namespace) -> None:
    """Check that an environment was named; a long sweep must not run a default one."""
    if not any("env" in layer.values for layer in args.layers):
        raise ConfigError(
            "Name the environment: brisk sweep ENV ..., or env = NAME in a file. `brisk envs` "
            "lists them."
        )


def _print_plan(info: SweepInfo, plan: Plan, *, as_json: bool) -> int:
    from briskrl.cli.sweep_summary import plan_json, plan_text
    from briskrl.cluster.sweep.estimate import estimate

    stream = progress_stream(as_json=True)
    print("training for a few seconds to measure the speed ...", file=stream, flush=True)
    found = estimate(info, plan)
    if as_json:
        print_json(plan_json(info, plan, found))
    else:
        print(plan_text(info, plan, found), flush=True)
    return 0


def _count(text: str) -> int:
    value = parse_value(text, int)
    if not isinstance(value, int) or value < 1:
        raise ConfigError(f"--trials {text} must be an integer of at least 1.")
    return value


def _parser() -> Parser:
    parser = Parser(SWEEP, HELP, EXAMPLES)
    parser.usage = (
        "brisk sweep ENV [options of brisk train] [options]\n"
        "       brisk sweep resume DIR [options]\n"
        "       brisk sweep show DIR [--json]"
    )
    for title, cls in OWN_TABLES.items():
        add_flags(parser.add_argument_group(title), cls)
    add_flags(parser, SweepCommand)
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    add_watch(parser)
    return parser
