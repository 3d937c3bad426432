"""Examine real scripts in real processes, from the process of the test."""

from __future__ import annotations

import sys
from pathlib import Path

from briskrl.doctor.report.records import Report
from briskrl.doctor.script.command import parse_command
from briskrl.doctor.script.examination import ScriptExamination


def examine(*words: object, budget_s: float = 30.0) -> Report:
    """The report of a command; its output goes where ours does."""
    return ScriptExamination(parse_command([str(word) for word in words]), budget_s).run()


def examine_script(path: Path, *arguments: object, budget_s: float = 30.0) -> Report:
    """The report of a script that this Python runs."""
    return examine(sys.executable, path, *arguments, budget_s=budget_s)
