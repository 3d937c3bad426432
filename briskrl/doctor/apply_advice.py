"""Combine the advice of a report and measure its gain over the original config."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from briskrl.doctor.examination import BY_WALL, run_until_learning
from briskrl.doctor.experiments.base import Experiment, outcome
from briskrl.doctor.paired_turns import compare
from briskrl.doctor.report.records import Finding, Outcome
from briskrl.doctor.train_loop import as_flags
from briskrl.doctor.train_target import TrainTarget

PROOF_S = 20.0
"""Seconds of the final measurement, without preparation."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Changes to make together."""

    changes: dict[str, Any]
    causes: tuple[str, ...]
    alters: str
    """Their effect on learning; empty if there is none."""


def combine_advice(findings: Sequence[Finding], *, altering: bool) -> Advice:
    """The changes of all measured findings; of two for the same setting, the larger gain wins.

    Args:
        findings: Ranked.
        altering: Include changes with an effect on learning.
    """
    changes: dict[str, Any] = {}
    causes, alters = [], []
    for finding in findings:
        wanted = finding.changes
        if not wanted or finding.basis != "measured" or (finding.alters_learning and not altering):
            continue
        if set(wanted) & set(changes):
            continue
        changes |= wanted
        causes.append(finding.cause)
        alters += [finding.alters_learning] if finding.alters_learning else []
    return Advice(changes, tuple(causes), "; ".join(dict.fromkeys(alters)))


def measure_advice(target: TrainTarget, advised: Advice, *, seconds: float = PROOF_S) -> Outcome:
    """Measure the advice: both configs, newly built, in alternating turns."""
    experiment = Experiment(
        name="proof",
        question="Is it faster with all advice applied?",
        cause="proof",
        change=as_flags(advised.changes),
        open=lambda: target.open_with(advised.changes),
        alters=advised.alters,
    )
    by_wall = any(cause in BY_WALL for cause in advised.causes)
    with closing(target.open()) as before, closing(experiment.open()) as after:
        run_until_learning(before)
        run_until_learning(after)
        return outcome(experiment, compare(before, after, seconds=seconds, by_wall=by_wall))
