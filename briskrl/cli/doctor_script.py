"""`brisk doctor -- COMMAND`: examine any training script."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from briskrl.core.errors import ConfigError, nearest
from briskrl.doctor.script.command import parse_command

if TYPE_CHECKING:
    from briskrl.doctor.examination import ProgressCallback
    from briskrl.doctor.report.records import Report
    from briskrl.doctor.script.phases import Rule

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
    from briskrl.training.hooks import StopRequest

    # The script's output must not mix with the report, which is our standard output.
    with StopRequest() as stop:
        examination = ScriptExamination(
            command,
            args.budget,
            rules=rules,
            stdout=sys.__stderr__.fileno() if sys.__stderr__ is not None else None,
            progress=progress,
            stops=lambda: stop.requested is not None,
        )
        return examination.run()


def _rule(text: str) -> Rule:
    from briskrl.doctor.script.phases import Rule

    phase, _, function = text.partition("=")
    if phase not in PHASES:
        raise ConfigError(f"--phase {text}: there is no phase {phase!r}. {nearest(phase, PHASES)}")
    if not function:
        raise ConfigError(f"--phase {text}: name a function, as in store=buffer.ReplayBuffer.add.")
    return Rule(phase, function)
