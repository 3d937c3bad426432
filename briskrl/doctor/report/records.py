"""The report of an examination as plain data: figures, outcomes of experiments, findings."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["helps", "no difference", "hurts", "unclear", "missing"]
Basis = Literal["measured", "predicted", "ceiling"]


@dataclass(frozen=True, slots=True)
class Gain:
    """Speed over the original speed, with its 95 % interval."""

    factor: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """Cost of one phase of the loop."""

    name: str
    share: float
    """Share of the wall time."""
    wall_s: float
    """Seconds per million transitions."""
    cpu_s: float
    """CPU seconds of all threads per million transitions."""
    calls: int
    """Calls per million transitions."""
    p50_us: float
    p95_us: float


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of the charts over time."""

    at_s: float
    """Wall seconds since the start of the loop."""
    steps: int
    """Transitions since the start of the loop."""
    steps_per_s: float
    cpu_us_per_step: float
    rss_mb: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an experiment: the loop with and without one change, in alternating turns."""

    name: str
    question: str
    change: str
    """The change, as a flag if there is one."""
    verdict: Verdict
    answer: str
    """The result in a sentence."""
    alters_learning: str = ""
    """Effect of the change on learning; empty if there is none."""
    gain: Gain | None = None
    """Transitions per second with the change over those without."""
    cpu_gain: Gain | None = None
    """Transitions per CPU second with the change over those without."""
    pairs: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """A change that is worth making."""

    cause: str
    """Short name: store, updates, env, ..."""
    title: str
    """What is slow, in a few words."""
    evidence: tuple[str, ...]
    advice: str
    """What to change."""
    gain: Gain
    basis: Basis
    """Whether the gain was measured with the change, predicted from measured parts, or is the upper
    bound if the cause cost nothing."""
    alters_learning: str = ""
    after: str = ""
    """Causes to fix first for this gain; empty if none."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Settings to change, by dotted name."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Speed of the unchanged loop."""

    steps_per_s: float
    steps_per_cpu_s: float
    cores_busy: float
    """CPU seconds of this process per second."""
    updates_per_step: float
    num_envs: int
    steps: int
    updates: int
    episodes: int | None
    machine_fraction: float | None
    """Arithmetic per CPU second over the measured peak of this machine; None if unknown."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything an examination found out."""

    target: str
    version: str
    budget_s: float
    took_s: float
    load: float | None
    """Load average when the examination started; None if the system does not report it."""
    speed: Speed | None
    coverage: float
    """Share of the wall time that the named phases cover."""
    phases: tuple[PhaseRow, ...]
    findings: tuple[Finding, ...]
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]
    history: tuple[Moment, ...]
    interrupted: bool = False
    cores: int | None = None
    """Cores available to the process."""
    proof: Outcome | None = None
    profile: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """The report as plain data; the sentence of an outcome has the key `told`."""
        data = asdict(self)
        proof = [] if data["proof"] is None else [data["proof"]]
        for outcome in (*data["outcomes"], *proof):
            outcome["told"] = outcome.pop("answer")
        return data
