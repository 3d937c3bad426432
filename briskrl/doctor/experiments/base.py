"""Experiments: one change to a loop, and what a gain would mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from briskrl.doctor.observation import Observation
from briskrl.doctor.paired_turns import Comparison, Loop
from briskrl.doctor.report.records import Gain, Outcome, Verdict

WORTH = 1.05
"""Gain that justifies a change of settings without an effect on learning."""
WORTH_A_CORE = 1.25
"""Gain that justifies the use of another core, which other programs may need."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One change to a loop."""

    name: str
    question: str
    cause: str
    """Cause of the finding that a gain would show."""
    change: str
    """The change, as a flag if there is one."""
    open: Callable[[], Loop]
    """Builds the loop with the change."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that make the change permanent; empty if there are none."""
    alters: str = ""
    """Effect on learning; empty if there is none."""
    worth: float | None = WORTH
    """Gain from which it is a finding; None if the experiment only answers a question."""
    lasts: bool = False
    """Whether the effect may persist after the turns with the change."""
    partial: bool = False
    """Whether the change may remove only a part of its cause."""
    context: str = ""
    """A related measurement that is part of the answer."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """An experiment that does not apply."""

    name: str
    question: str
    why: str
    change: str = ""


class Target(Protocol):
    """Something to examine."""

    name: str
    """Its name in the report."""
    num_envs: int
    """Transitions per iteration."""
    obs_size: int
    """Numbers per observation."""

    def open(self) -> Loop:
        """Build the unchanged loop."""
        ...

    def open_with(self, changes: Mapping[str, Any]) -> Loop | None:
        """Build the loop with several changes; None if changes cannot be combined."""
        ...

    def experiments(self, seen: Observation) -> Sequence[Experiment | Skipped]:
        """Experiments for this observation, the most important first."""
        ...

    def notes(self) -> list[str]:
        """Facts about the target for the report."""
        ...

    def machine_fraction(self, seen: Observation) -> float | None:
        """Arithmetic per CPU second over the machine's peak; None if unknown."""
        ...


def outcome(experiment: Experiment, comparison: Comparison | None) -> Outcome:
    """The result of an experiment, in figures and in a sentence."""
    if comparison is None:
        return missing(experiment, "one turn takes too long for this budget; increase --budget")
    gain = comparison.gain
    verdict, answer = verdict_of(gain)
    context = f"; {experiment.context}" if experiment.context else ""
    return Outcome(
        name=experiment.name,
        question=experiment.question,
        change=experiment.change,
        verdict=verdict,
        answer=answer + context,
        alters_learning=experiment.alters,
        gain=gain,
        cpu_gain=comparison.cpu_gain,
        pairs=comparison.pairs,
    )


def verdict_of(gain: Gain) -> tuple[Verdict, str]:
    """Whether a change helps, and the sentence for it."""
    if gain.low > 1.02:
        return "helps", f"yes: {gain.factor:.2f} times as fast"
    if gain.high < 0.98:
        return "hurts", f"no: {gain.factor:.2f} times as fast"
    if gain.low > 0.93 and gain.high < 1.07:
        return "no difference", "no measurable difference"
    return "unclear", "unclear: the difference is within measurement noise"


def missing(experiment: Experiment | Skipped, why: str) -> Outcome:
    """An experiment that was not run, and why."""
    return Outcome(
        name=experiment.name,
        question=experiment.question,
        change=experiment.change,
        verdict="missing",
        answer=why,
    )
