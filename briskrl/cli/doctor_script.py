"""`brisk doctor -- COMMAND`: examine any training script."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from briskrl.core.config import to_toml
from briskrl.core.errors import BriskError, ConfigError, nearest
from briskrl.doctor.script.command import parse_command

if TYPE_CHECKING:
    from briskrl.doctor.examination import ProgressCallback
    from briskrl.doctor.report.records import Report
    from briskrl.doctor.script.observed import Observed
    from briskrl.doctor.script.phases import Rule

COMPARING, COMPARED_S = 0.25, 10.0
"""Share of the budget for training the same in briskrl, and the longest time for that."""
PHASES = ("act", "env", "store", "sample", "update", "eval", "log", "save", "wait")


def examine_script(
    words: Sequence[str], args: argparse.Namespace, progress: ProgressCallback
) -> Report:
    """Run a command with the watcher and examine it.

    Raises:
        BriskError: The command is wrong, or the script cannot be watched.
    """
    command = parse_command(words)
    rules = [_rule(text) for text in args.phase]
    from briskrl.doctor.script.examination import ScriptExamination
    from briskrl.doctor.script.whole_runs import parse_trials
    from briskrl.training.hooks import StopRequest

    trials = [trial for text in args.tries for trial in parse_trials(text)]
    also = args.compare or args.migrate
    # The script's output must not mix with the report, which is our standard output.
    with StopRequest() as stop:
        examination = ScriptExamination(
            command,
            args.budget,
            rules=rules,
            stdout=sys.__stderr__.fileno() if sys.__stderr__ is not None else None,
            progress=progress,
            stops=lambda: stop.requested is not None,
            trials=trials,
            reserve=COMPARING if args.compare else 0.0,
        )
        report = examination.run()
    if also and examination.seen is not None and not report.interrupted:
        progress("training the same in briskrl", 1 - COMPARING)
        report = _same_in_brisk(report, examination.seen, args)
    return report


def _same_in_brisk(report: Report, seen: Observed, args: argparse.Namespace) -> Report:
    """Add the comparison with briskrl to the report, and write the config."""
    from briskrl.cli.train import parse_args
    from briskrl.doctor.script.same_in_brisk import compare, flags_of

    try:
        flags = flags_of(seen)
        config, _ = parse_args(flags)
    except BriskError as error:
        note = f"this script cannot be trained by briskrl as it is: {error}"
        return replace(report, notes=(*report.notes, note))
    notes = [f"the same in briskrl: brisk train {shlex.join(flags)}"]
    if args.migrate:
        Path(args.migrate).write_text(to_toml(config), encoding="utf-8")
        notes.append(f"written: {args.migrate}; train with it: brisk train --config {args.migrate}")
    outcomes = report.outcomes
    if args.compare:
        outcomes += (compare(seen, config, min(COMPARED_S, COMPARING * args.budget / 2)),)
    return replace(report, notes=(*report.notes, *notes), outcomes=outcomes)


def _rule(text: str) -> Rule:
    from briskrl.doctor.script.phases import Rule

    phase, _, function = text.partition("=")
    if phase not in PHASES:
        raise ConfigError(f"--phase {text}: there is no phase {phase!r}. {nearest(phase, PHASES)}")
    if not function:
        raise ConfigError(f"--phase {text}: name a function, as in store=buffer.ReplayBuffer.add.")
    return Rule(phase, function)
