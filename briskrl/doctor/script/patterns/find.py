"""All findings of one observed script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from briskrl.doctor.findings import merge, rank
from briskrl.doctor.report.records import Finding
from briskrl.doctor.script.costs import Costs
from briskrl.doctor.script.patterns.age_patterns import age_findings
from briskrl.doctor.script.patterns.code_patterns import code_findings
from briskrl.doctor.script.patterns.learning_patterns import learning_findings
from briskrl.doctor.script.patterns.memory_patterns import memory_findings
from briskrl.doctor.script.patterns.precision_patterns import precision_findings
from briskrl.doctor.script.patterns.record_patterns import record_findings
from briskrl.doctor.script.patterns.worker_patterns import worker_findings

WORTH = 1.08
"""Gain below which a pattern is not worth a change."""
NO_GAIN = ("leak",)
"""Causes that are reported although they cost no time."""


def find_patterns(costs: Costs) -> list[Finding]:
    """Known patterns in the recording of a script."""
    found = [
        *memory_findings(costs),
        *learning_findings(costs),
        *record_findings(costs),
        *code_findings(costs),
        *precision_findings(costs),
        *worker_findings(costs),
        *age_findings(costs),
    ]
    return [item for item in found if item.gain.factor >= WORTH or item.cause in NO_GAIN]


def combine(patterns: Iterable[Finding], measured: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding per cause and place, the largest gain first.

    An experiment and a pattern of the same cause are one finding, with the place of the pattern.
    """
    groups: dict[str, list[Finding]] = {}
    for finding in (*patterns, *measured):
        groups.setdefault(_kind(finding), []).append(finding)
    return rank(_merged(group) for group in groups.values())


def _kind(finding: Finding) -> str:
    return "log" if finding.cause.startswith("write-") else finding.cause


def _merged(group: Sequence[Finding]) -> Finding:
    placed = next((finding for finding in group if finding.location), group[0])
    strongest = max(group, key=lambda finding: finding.gain.factor)
    # An experiment may remove only a part of what the pattern shows.
    best = merge(group) if strongest.basis == "measured" else strongest
    evidence = tuple(dict.fromkeys(line for finding in group for line in finding.evidence))
    return replace(
        placed, gain=best.gain, basis=best.basis, evidence=evidence, advice=placed.advice
    )
