"""Proof of advice: the config with the advised changes, beside the one it came from."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from briskrl.doctor.changes import as_flags
from briskrl.doctor.examination import BY_WALL, settle
from briskrl.doctor.experiments.base import Experiment, outcome
from briskrl.doctor.paired_turns import compare
from briskrl.doctor.report.records import Finding, Outcome
from briskrl.doctor.train_target import TrainSubject

PROOF_S = 20.0
"""Seconds for the proof, apart from getting ready."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Changes that go together."""

    changes: dict[str, Any]
    causes: tuple[str, ...]
    alters: str
    """What they do to learning; empty if nothing."""


def advice(findings: Sequence[Finding], *, altering: bool) -> Advice:
    """The changes of all proved findings; where two want the same setting, the larger gain has it.

    Args:
        findings: Ranked.
        altering: Also take changes that alter what is learnt.
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


def prove(subject: TrainSubject, advised: Advice, *, seconds: float = PROOF_S) -> Outcome:
    """Both configs again, newly made, in alternating turns."""
    experiment = Experiment(
        name="proof",
        question="Is it faster with all the advice taken?",
        cause="proof",
        change=as_flags(advised.changes),
        open=lambda: subject.open_with(advised.changes),
        alters=advised.alters,
    )
    by_wall = any(cause in BY_WALL for cause in advised.causes)
    with closing(subject.open()) as before, closing(experiment.open()) as after:
        settle(before)
        settle(after)
        return outcome(experiment, compare(before, after, seconds=seconds, by_wall=by_wall))
