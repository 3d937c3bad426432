"""`brisk doctor`: where the time of a training goes, what would help, and the proof."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briskrl.cli.flags import Parser
from briskrl.cli.targets import find_folder
from briskrl.core.config import to_toml
from briskrl.core.errors import BriskError, ConfigError
from briskrl.training.config import TrainConfig

if TYPE_CHECKING:
    from briskrl.doctor.experiments.base import Subject
    from briskrl.doctor.report.records import Report
    from briskrl.doctor.train_target import TrainSubject

LEAST_BUDGET, PROFILED_S = 5.0, 10.0
LEGACY = "legacy"

HELP = """\
Find out where the time of a training goes, try what would help, and prove it.

TARGET is what `brisk train` takes (an environment with any training flags, or --config FILE), a run
folder (its settings are trained again on the side; the run itself is not touched), or `legacy`: the
slow loop this project comes from, as a case to learn from.

The loop is watched first: phases by wall and CPU time, its first seconds, memory. Then
one thing at a time is changed (engine, threads, updates, environments, backend, batches, logs, ...)
and both sides take turns of a twentieth of a second, so that whatever else the machine does falls
on both. Findings come with the gain that was measured; advice that does not help here is
answered as well."""

EXAMPLES = """\
examples:
  brisk doctor snake --algo per-dqn --num-envs 64
  brisk doctor gym:CartPole-v1 --algo ppo --budget 60
  brisk doctor runs/NAME --html report.html
  brisk doctor snake --engine torch --apply
  brisk doctor legacy --json

Ctrl-C gives the report of what is known so far."""


def run(argv: list[str]) -> int:
    """Examine a target and print the report."""
    parser = _parser()
    wants_help = not argv or "-h" in argv or "--help" in argv
    if wants_help:
        print(parser.format_help().rstrip())
        return 0
    args, words = parser.parse_known_args(argv)
    _check(args)
    subject, config = _subject(args.TARGET, words)
    report = _examine(subject, args)
    if config is not None and (args.apply or args.apply_all) and not report.interrupted:
        report = _apply(subject, config, report, args)
    return _answer(report, args)


def _parser() -> Parser:
    parser = Parser("brisk doctor", HELP, EXAMPLES)
    parser.usage = "brisk doctor TARGET [options of brisk train] [options]"
    parser.add_argument("TARGET", nargs="?", help="environment, run folder, config file or legacy")
    parser.add_argument(
        "--budget", type=float, default=120.0, metavar="SECONDS", help="how long [default: 120]"
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.add_argument("--html", metavar="FILE", help="also write the report as a web page")
    parser.add_argument(
        "--profile",
        choices=("cprofile", "torch", "pyspy"),
        help="also profile the loop by function, operation or stack",
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="write a config with the advice that does not alter learning, and prove it",
    )
    parser.add_argument(
        "--apply-all", action="store_true", help="the same with all advice, whatever it alters"
    )
    parser.add_argument(
        "--out", metavar="FILE", default="doctor.toml", help="where to [default: doctor.toml]"
    )
    parser.add_argument("--force", action="store_true", help="write over files that exist")
    return parser


def _check(args: argparse.Namespace) -> None:
    if not args.budget >= LEAST_BUDGET:
        raise ConfigError(
            f"--budget {args.budget:g} is too short to tell anything: give {LEAST_BUDGET:g} "
            "seconds or more; 60 to 120 are usual."
        )
    written = [args.html] if args.html else []
    if args.apply or args.apply_all:
        if args.TARGET == LEGACY:
            raise ConfigError(f"{LEGACY} has no config to write; its cures are in our own loop.")
        written.append(args.out)
    for name in written:
        path = Path(name)
        if path.exists() and not args.force:
            raise ConfigError(f"{path} exists. Give another name, or --force to write over it.")
        if not path.absolute().parent.is_dir():
            raise ConfigError(f"There is no folder {path.absolute().parent} to write {path} into.")


def _subject(target: str | None, words: list[str]) -> tuple[Any, TrainConfig | None]:
    if target == LEGACY:
        if words:
            raise BriskError(f"{LEGACY} has no options of its own, so not {words[0]!r}.")
        from briskrl.doctor.legacy import LegacySubject

        return LegacySubject(), None
    from briskrl.cli.train import parse_args

    folder = None if target is None else find_folder(target)
    if folder is not None:
        words = ["--config", str(folder / "config.toml"), *words]
    elif target is not None and Path(target).suffix in (".toml", ".json", ".yaml", ".yml"):
        words = ["--config", target, *words]
    elif target is not None:
        words = [target, *words]
    config, asked = parse_args(words)
    if asked.print_config:
        raise ConfigError("--print-config belongs to brisk train.")
    from briskrl.doctor.train_target import TrainSubject

    subject = TrainSubject(replace(config, run_dir=None), name=target or config.env)
    if folder is not None:
        from briskrl.doctor.run_notes import describe_run

        subject.told += describe_run(folder)
    return subject, config


def _examine(subject: Subject, args: argparse.Namespace) -> Report:
    from briskrl.doctor.examination import examine
    from briskrl.training.signals import StopRequest

    progress = _Progress()
    try:
        # A script's background jobs ignore Ctrl-C unless a handler says otherwise.
        with StopRequest() as stop:
            report = examine(
                subject,
                budget_s=args.budget,
                tell=progress,
                stops=lambda: stop.requested is not None,
            )
    finally:
        progress.close()
    if args.profile and not report.interrupted:
        report = replace(report, profile=_profile(subject, args))
    return report


def _profile(subject: Subject, args: argparse.Namespace) -> dict[str, Any]:
    from briskrl.doctor.examination import settle
    from briskrl.doctor.profile import profile

    print(f"profiling ({args.profile})", file=sys.stderr, flush=True)
    with closing(subject.open()) as loop:
        settle(loop)
        return profile(loop, args.profile, PROFILED_S, Path(args.html or args.out).parent)


def _apply(
    subject: TrainSubject, config: TrainConfig, report: Report, args: argparse.Namespace
) -> Report:
    from briskrl.doctor.apply_advice import advice, prove
    from briskrl.doctor.changes import changed

    advised = advice(report.findings, altering=args.apply_all)
    if not advised.changes:
        told = "nothing to apply: no finding names a setting"
        if any(finding.alters_learning for finding in report.findings) and not args.apply_all:
            told += " that leaves learning as it is (--apply-all takes the others)"
        return replace(report, notes=(*report.notes, told))
    print("proving the advice", file=sys.stderr, flush=True)
    proof = prove(subject, advised)
    if proof.gain is None or proof.gain.factor <= 1:
        told = "the changes together are not faster, so no config was written"
    else:
        Path(args.out).write_text(to_toml(replace(changed(config, advised.changes), run_dir=None)))
        told = f"written: {args.out}; train with it: brisk train --config {args.out}"
    return replace(report, proof=proof, notes=(*report.notes, told))


def _answer(report: Report, args: argparse.Namespace) -> int:
    if args.html:
        from briskrl.doctor.report.html import as_html

        Path(args.html).write_text(as_html(report))
    if args.json:
        print(json.dumps(report.as_json(), allow_nan=False))
    else:
        from briskrl.doctor.report.terminal import describe

        print(describe(report))
        if args.html:
            print(f"\npage: {args.html}")
    return 130 if report.interrupted else 0


class _Progress:
    """What goes on, in one line that is written over on a terminal."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._last = ""

    def __call__(self, doing: str, done: float) -> None:
        """Say it, if it is news."""
        line = f"{100 * done:3.0f} %  {doing}"
        if self._live:
            print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)
        elif doing != self._last:
            print(line, file=sys.stderr, flush=True)
        self._last = doing

    def close(self) -> None:
        """Clear the line."""
        if self._live:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
