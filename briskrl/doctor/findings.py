"""Merge outcomes of experiments and symptoms into findings: one per cause, largest gain first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from briskrl.doctor.experiments.base import Experiment
from briskrl.doctor.report.records import Finding, Outcome

TITLES = {
    "engine": "the other engine computes the same networks faster",
    "updates": "learning takes most of the time",
    "small-batch": "batches are too small for this network",
    "env": "environments are stepped one after another",
    "uneven-env": "every step waits for the slowest environment",
    "threads": "the number of threads does not suit this machine",
    "overlap": "collecting and learning at the same time is set wrongly for this machine",
    "num-envs": "the number of environments does not suit this machine",
    "log": "logging takes time",
    "write-per-step": "every step writes to the system",
    "write-per-episode": "every episode writes to the system",
    "save": "checkpoints take time",
    "store": "storing transitions takes time",
    "growth": "steps are slower than at the start of the loop",
    "anomaly": "the anomaly detection of autograd is on",
    "checks": "distributions check their arguments",
    "denormals": "denormal numbers are computed slowly",
    "console": "printing takes time",
    "flood": "the flood fill takes time",
    "device": "another device is faster",
    "compile": "the networks can be compiled",
}
"""Title of a finding, by cause."""
CERTAIN = 0.2
"""Share of a gain that the lower end of its interval must reach."""

LARGE = 2.0
"""Predicted gain from which less learning per step is worth a thought before other fixes."""


def find(
    tried: Iterable[tuple[Experiment, Outcome]], symptoms: Sequence[Finding]
) -> tuple[Finding, ...]:
    """All findings, ranked by `rank`."""
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
    """Whether a symptom of the same cause promises clearly more."""
    alike = [symptom for symptom in symptoms if symptom.cause == finding.cause]
    return any(symptom.gain.low > finding.gain.high for symptom in alike)


def rank(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Order findings: immediate gains, gains after other fixes, upper bounds; largest first.

    A small predicted gain that costs learning comes after fixes that leave learning as it is.
    """
    return tuple(
        sorted(
            findings,
            key=lambda f: (f.basis == "ceiling", f.after != "", _costs_more(f), -f.gain.factor),
        )
    )


def _costs_more(finding: Finding) -> bool:
    """Whether learning may suffer for a gain that was not even measured and is small."""
    is_guess = finding.basis == "predicted" and finding.alters_learning != ""
    return is_guess and finding.gain.factor < LARGE


def from_experiment(experiment: Experiment, outcome: Outcome) -> Finding | None:
    """The finding that an experiment shows; None if its gain is too small or unclear."""
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
    """The strongest finding of a cause with the evidence of all; a symptom's title is preferred."""
    ranked = sorted(findings, key=lambda found: (found.basis != "measured", -found.gain.factor))
    best = ranked[0]
    title = next((found.title for found in ranked if found.basis != "measured"), best.title)
    evidence = [line for found in ranked for line in found.evidence]
    return replace(best, title=title, evidence=tuple(dict.fromkeys(evidence)))
