"""`brisk doctor`: where the time of a training goes, and which changes make it faster."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briskrl.cli.flags import Parser
from briskrl.cli.output import drawing, optional, print_json
from briskrl.cli.targets import find_folder
from briskrl.core.config import to_toml
from briskrl.core.errors import BriskError, ConfigError
from briskrl.core.format import escape_controls
from briskrl.core.registry import load_from_checkout
from briskrl.training.config import TrainConfig

if TYPE_CHECKING:
    from briskrl.doctor.experiments.base import Target
    from briskrl.doctor.report.records import Report
    from briskrl.doctor.train_target import TrainTarget

LEAST_BUDGET, PROFILED_S = 5.0, 10.0
LEGACY = "legacy"

HELP = """\
Measure where the time of a training goes, and test which changes make it faster.

TARGET is an environment with any flags of `brisk train`, a config file, a run folder (its settings
are trained in a temporary folder; the run itself is not touched), or `legacy`: a slow example loop.
COMMAND is any training script of yours, which runs as it is: python train.py, -m package.train.

The loop is observed first: phases by wall and CPU time, slow starts, memory. Then one setting at a
time is changed (engine, threads, updates, environments, backend, batch size, logging, ...). Both
variants run in alternating turns of 0.05 s, so that other load on the machine affects both.
Findings state the measured gain; changes that do not help are listed as well."""

EXAMPLES = """\
examples:
  brisk doctor -- python train_dqn.py --episodes 100
  brisk doctor snake --algo per-dqn --num-envs 64
  brisk doctor gym:CartPole-v1 --algo ppo --budget 60
  brisk doctor runs/NAME --html report.html
  brisk doctor snake --engine torch --apply
  brisk doctor legacy --json

Ctrl-C prints the report of the results so far."""


def run(argv: list[str]) -> int:
    """Examine a target and print the report."""
    parser = _parser()
    own, command = _split(argv)
    wants_help = not argv or "-h" in own or "--help" in own
    if wants_help:
        print(parser.format_help().rstrip())
        return 0
    args, flags = parser.parse_known_args(own)
    _check(args)
    if command is not None:
        return _examine_script(command, args, flags)
    if args.phase or args.tries or args.compare or args.migrate:
        raise ConfigError("--phase, --try, --compare and --migrate are for scripts, after --.")
    target, config = _make_target(args.TARGET, flags)
    report = _examine(target, args)
    if config is not None and (args.apply or args.apply_all) and not report.interrupted:
        report = _apply(target, config, report, args)
    _keep(report, args.TARGET)
    return _print_report(report, args)


def _split(argv: list[str]) -> tuple[list[str], list[str] | None]:
    """Our own arguments, and the command after `--`."""
    if "--" not in argv:
        return argv, None
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def _examine_script(command: list[str], args: argparse.Namespace, flags: list[str]) -> int:
    """Examine a script; its own exit code is ours if it failed by itself."""
    from briskrl.cli.doctor_script import examine_script

    unused = [args.TARGET] if args.TARGET is not None else flags
    if unused:
        raise ConfigError(f"{unused[0]!r} is no option for a script; its own follow after --.")
    if args.apply or args.apply_all or args.profile:
        raise ConfigError("--apply, --apply-all and --profile need a training of briskrl.")
    progress = _Progress()
    try:
        report = examine_script(command, args, progress)
    finally:
        progress.close()
    code = _print_report(report, args)
    script = report.script
    if script is None or script.stopped or not script.exit_code:
        return code
    return script.exit_code if script.exit_code > 0 else 128 - script.exit_code


def _parser() -> Parser:
    parser = Parser("brisk doctor", HELP, EXAMPLES)
    parser.usage = (
        "brisk doctor TARGET [options of brisk train] [options]\n"
        "       brisk doctor [options] -- COMMAND"
    )
    parser.add_argument("TARGET", nargs="?", help="environment, run folder, config file or legacy")
    parser.add_argument(
        "--budget", type=float, default=120.0, metavar="SECONDS", help="time budget [default: 120]"
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.add_argument(
        "--html", metavar="FILE", help="also write the report as an HTML page with charts"
    )
    parser.add_argument(
        "--profile",
        choices=("cprofile", "torch", "pyspy"),
        help="also profile the loop by function, torch operator or sampled stack",
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="write a config with the advice that does not change learning, and measure it",
    )
    parser.add_argument(
        "--apply-all",
        action="store_true",
        help="like --apply, with all advice, even if it changes learning",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        default="doctor.toml",
        help="config to write [default: doctor.toml]",
    )
    parser.add_argument(
        "--phase",
        action="append",
        default=[],
        metavar="NAME=FUNCTION",
        help="for scripts: count a function as a phase (store=buffer.ReplayBuffer.add)",
    )
    parser.add_argument(
        "--try",
        dest="tries",
        action="append",
        default=[],
        metavar="FLAG VALUES",
        help='for scripts: also run all of it with other arguments ("--num-envs 32,64,256")',
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="for scripts: train the same environment, ratio, batches and network in briskrl",
    )
    parser.add_argument(
        "--migrate", metavar="FILE", help="for scripts: write that as a config for brisk train"
    )
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    return parser


def _check(args: argparse.Namespace) -> None:
    if not args.budget >= LEAST_BUDGET:
        raise ConfigError(
            f"--budget {args.budget:g} is too short; the minimum is {LEAST_BUDGET:g} seconds, "
            "60 to 120 are usual."
        )
    written = [name for name in (args.html, args.migrate) if name]
    if args.apply or args.apply_all:
        if args.TARGET == LEGACY:
            raise ConfigError(f"{LEGACY} has no config to write.")
        written.append(args.out)
    for name in written:
        path = Path(name)
        if path.exists() and not args.force:
            raise ConfigError(
                f"{path} exists. Choose another name, or use --force to overwrite it."
            )
        if not path.absolute().parent.is_dir():
            raise ConfigError(f"Cannot write {path}: there is no folder {path.absolute().parent}.")


def _make_target(name: str | None, flags: list[str]) -> tuple[Any, TrainConfig | None]:
    """What to examine, and its config if it has one."""
    if name == LEGACY:
        if flags:
            raise BriskError(f"{LEGACY} has no options of its own, so {flags[0]!r} cannot be used.")
        legacy = load_from_checkout("benchmarks.legacy.doctor_case", f"brisk doctor {LEGACY}")
        return legacy.LegacyTarget(), None
    from briskrl.cli.train import parse_args

    folder = None if name is None else find_folder(name)
    if folder is not None:
        flags = ["--config", str(folder / "config.toml"), *flags]
    elif name is not None and Path(name).suffix in (".toml", ".json", ".yaml", ".yml"):
        flags = ["--config", name, *flags]
    elif name is not None:
        flags = [name, *flags]
    config, asked = parse_args(flags)
    if asked.print_config:
        raise ConfigError("--print-config belongs to brisk train.")
    from briskrl.doctor.train_target import TrainTarget

    target = TrainTarget(replace(config, run_dir=None), name=name or config.env)
    if folder is not None:
        from briskrl.doctor.train_target import describe_run

        target.extra_notes += describe_run(folder)
    return target, config


def _examine(target: Target, args: argparse.Namespace) -> Report:
    from briskrl.doctor.examination import examine
    from briskrl.training.hooks import StopRequest

    progress = _Progress()
    try:
        # Background jobs of a script ignore Ctrl-C unless there is a handler.
        with StopRequest() as stop:
            report = examine(
                target,
                budget_s=args.budget,
                progress=progress,
                stops=lambda: stop.requested is not None,
            )
    finally:
        progress.close()
    if args.profile and not report.interrupted:
        report = replace(report, profile=_profile(target, args))
    return report


def _profile(target: Target, args: argparse.Namespace) -> dict[str, Any]:
    from briskrl.doctor.examination import run_until_learning
    from briskrl.doctor.profile import profile

    print(f"profiling ({args.profile})", file=sys.stderr, flush=True)
    with closing(target.open()) as loop:
        run_until_learning(loop)
        return profile(loop, args.profile, PROFILED_S, Path(args.html or args.out).parent)


def _apply(
    target: TrainTarget, config: TrainConfig, report: Report, args: argparse.Namespace
) -> Report:
    from briskrl.doctor.apply_advice import combine_advice, measure_advice
    from briskrl.doctor.train_loop import changed

    advised = combine_advice(report.findings, altering=args.apply_all)
    if not advised.changes:
        note = "nothing to apply: no finding names a setting"
        if any(finding.alters_learning for finding in report.findings) and not args.apply_all:
            note += " without an effect on learning (--apply-all includes the others)"
        return replace(report, notes=(*report.notes, note))
    print("measuring the advice", file=sys.stderr, flush=True)
    proof = measure_advice(target, advised)
    if proof.gain is None or proof.gain.factor <= 1:
        note = "the changes together are not faster, so no config was written"
    else:
        advised_config = replace(changed(config, advised.changes), run_dir=None)
        Path(args.out).write_text(to_toml(advised_config), encoding="utf-8")
        note = f"written: {args.out}; train with it: brisk train --config {args.out}"
    return replace(report, proof=proof, notes=(*report.notes, note))


def _keep(report: Report, name: str | None) -> None:
    """Save the report in the folder of the run that was examined, for `brisk report`."""
    folder = None if name is None else find_folder(name)
    if folder is None or report.interrupted:
        return
    # A folder that cannot be written, or a link in its place, only leaves the report out.
    from briskrl.training.storage.atomic_files import json_bytes, make_folder
    from briskrl.training.storage.atomic_files import replace as replace_file
    from briskrl.training.storage.line_files import plain
    from briskrl.training.storage.own_files import check_folder

    with suppress(BriskError, OSError):
        check_folder(folder / "doctor")
        make_folder(folder / "doctor")
        replace_file(folder / "doctor" / "report.json", json_bytes(plain(report.as_json())))


def _print_report(report: Report, args: argparse.Namespace) -> int:
    if args.html:
        from briskrl.doctor.report.html import as_html

        Path(args.html).write_text(as_html(report), encoding="utf-8")
    if args.json:
        print_json(report.as_json())
    else:
        from briskrl.doctor.report.terminal import describe

        print(describe(report))
        if args.html:
            print(f"\npage: {args.html}")
    return 130 if report.interrupted else 0


class _Progress:
    """One line with the current activity, overwritten on a terminal."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        stream = optional(sys.stderr)
        self._stream = drawing(stream) if self._live else stream
        self._last = ""

    def __call__(self, doing: str, done: float) -> None:
        """Show the activity if it has changed."""
        line = f"{100 * done:3.0f} %  {escape_controls(doing)}"
        if self._live:
            print(f"\r\x1b[2K{line}", end="", file=self._stream, flush=True)
        elif doing != self._last:
            print(line, file=self._stream, flush=True)
        self._last = doing

    def close(self) -> None:
        """Clear the line."""
        if self._live:
            print("\r\x1b[2K", end="", file=self._stream, flush=True)
