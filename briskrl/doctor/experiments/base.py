"""Experiments: one thing changed at a time, and what it would mean if that helped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from briskrl.doctor.observation import Observation
from briskrl.doctor.paired_turns import Comparison, Loop
from briskrl.doctor.report.records import Outcome

WORTH = 1.05
"""Gain that is worth a change of settings which does not alter what is learnt."""
WORTH_A_CORE = 1.25
"""Gain that is worth the time of another core, which others may need."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One thing changed."""

    name: str
    question: str
    cause: str
    """The finding it would prove."""
    change: str
    """What is changed, as a flag where there is one."""
    open: Callable[[], Loop]
    """The loop with the change."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that make the change last; empty if there are none."""
    alters: str = ""
    """How it changes what is learnt; empty if it does not."""
    worth: float | None = WORTH
    """Gain from which it is a finding; None if it only answers a question."""
    lasts: bool = False
    """Whether the change may outlast the turns in which it is made."""
    partial: bool = False
    """Whether it may cure a part only of its cause."""
    context: str = ""
    """What was measured beforehand and belongs to the answer."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """An experiment that does not apply."""

    name: str
    question: str
    why: str


class Subject(Protocol):
    """Something to be examined."""

    name: str
    """What the report calls it."""
    num_envs: int
    """Transitions per iteration, where they come in step."""

    def open(self) -> Loop:
        """The loop as it is, from its birth."""
        ...

    def open_with(self, changes: Mapping[str, Any]) -> Loop | None:
        """The loop with several changes at once; None if its changes cannot be combined."""
        ...

    def experiments(self, seen: Observation) -> Sequence[Experiment | Skipped]:
        """What to try, the most telling first, given what was seen of the loop."""
        ...

    def notes(self) -> list[str]:
        """What a reader should know of the target."""
        ...

    def machine_fraction(self, seen: Observation) -> float | None:
        """Arithmetic per CPU second over the machine's best; None if it is not known."""
        ...


def outcome(experiment: Experiment, comparison: Comparison | None) -> Outcome:
    """What an experiment has shown."""
    if comparison is None:
        return missing(experiment, "one turn takes too long for the budget; give more --budget")
    gain = comparison.gain
    if gain.low > 1.02:
        verdict = "helps"
        told = f"yes: {gain.factor:.2f} times as fast"
    elif gain.high < 0.98:
        verdict = "hurts"
        told = f"no: {gain.factor:.2f} times as fast"
    elif gain.low > 0.93 and gain.high < 1.07:
        verdict = "no difference"
        told = "no: it makes no difference"
    else:
        verdict = "unclear"
        told = "unclear: the difference is smaller than the machine's unrest"
    context = f"; {experiment.context}" if experiment.context else ""
    return Outcome(
        name=experiment.name,
        question=experiment.question,
        change=experiment.change,
        verdict=verdict,  # type: ignore[arg-type]
        told=told + context,
        alters_learning=experiment.alters,
        gain=gain,
        cpu_gain=comparison.cpu_gain,
        pairs=comparison.pairs,
    )


def missing(experiment: Experiment | Skipped, why: str) -> Outcome:
    """An experiment that was not made, and why."""
    return Outcome(
        name=experiment.name,
        question=experiment.question,
        change=getattr(experiment, "change", ""),
        verdict="missing",
        told=why,
    )
