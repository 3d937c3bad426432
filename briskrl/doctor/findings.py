"""From outcomes and symptoms to findings: one per cause, the largest gain first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from briskrl.doctor.experiments.base import Experiment
from briskrl.doctor.report.records import Finding, Outcome

TITLES = {
    "engine": "another engine computes the same networks faster",
    "updates": "learning takes most of the time",
    "small-batch": "updates are too small for the size of the network",
    "env": "environments are stepped one after another",
    "uneven-env": "every round waits for the slowest environment",
    "threads": "the number of threads does not suit this machine",
    "overlap": "collecting and learning take turns, or get into each other's way",
    "num-envs": "the number of environments does not suit this machine",
    "log": "logging takes time",
    "write-per-step": "something is written to the system at every step",
    "write-per-episode": "something is written to the system for every episode",
    "save": "checkpoints take time",
    "store": "storing transitions takes time",
    "growth": "a step costs more than when the loop began",
    "denormals": "tiny numbers are computed slowly",
    "console": "printing takes time",
    "flood": "the flood fill takes time",
    "device": "another device is faster",
    "compile": "the networks can be compiled",
}
"""What is slow, by cause, where the experiment itself does not say."""


CERTAIN = 0.2
"""Share of a gain that the interval must leave no doubt about."""


def find(
    tried: Iterable[tuple[Experiment, Outcome]], symptoms: Sequence[Finding]
) -> tuple[Finding, ...]:
    """All findings, ranked: what was proved or follows from figures by its gain, then ceilings."""
    by_cause: dict[str, list[Finding]] = {}
    for experiment, outcome in tried:
        finding = from_experiment(experiment, outcome)
        if finding is not None and not (experiment.partial and _is_less(finding, symptoms)):
            by_cause.setdefault(finding.cause, []).append(finding)
    for symptom in symptoms:
        by_cause.setdefault(symptom.cause, []).append(symptom)
    merged = [merge(findings) for findings in by_cause.values()]
    return rank(merged)


def _is_less(finding: Finding, symptoms: Sequence[Finding]) -> bool:
    """Whether all of its cause clearly costs more than what was saved."""
    alike = [symptom for symptom in symptoms if symptom.cause == finding.cause]
    return any(symptom.gain.low > finding.gain.high for symptom in alike)


def rank(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """What can be had at once by its gain, then what shows only after that, then ceilings."""
    return tuple(
        sorted(findings, key=lambda f: (f.basis == "ceiling", f.after != "", -f.gain.factor))
    )


def from_experiment(experiment: Experiment, outcome: Outcome) -> Finding | None:
    """The finding that an experiment has proved, if it has."""
    gain = outcome.gain
    if experiment.worth is None or gain is None:
        return None
    if gain.factor < experiment.worth or gain.low < 1 + CERTAIN * (gain.factor - 1):
        return None
    context = (experiment.context,) if experiment.context else ()
    measured = (
        f"{experiment.change}: {gain.factor:.2f} times as fast "
        f"({gain.low:.2f} to {gain.high:.2f}, {outcome.pairs} pairs of turns)"
    )
    return Finding(
        cause=experiment.cause,
        title=TITLES.get(experiment.cause, experiment.cause),
        evidence=(*context, measured),
        advice=experiment.change,
        gain=gain,
        basis="measured",
        alters_learning=experiment.alters,
        changes=dict(experiment.changes),
    )


def merge(findings: Sequence[Finding]) -> Finding:
    """The best proof of a cause, with the evidence of all; a symptom's title says more."""
    ranked = sorted(findings, key=lambda found: (found.basis != "measured", -found.gain.factor))
    best = ranked[0]
    told = next((found.title for found in ranked if found.basis != "measured"), best.title)
    evidence = [line for found in ranked for line in found.evidence]
    return replace(best, title=told, evidence=tuple(dict.fromkeys(evidence)))
