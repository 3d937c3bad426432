"""What an examination ends with: figures, outcomes of experiments, and findings; plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["helps", "no difference", "hurts", "unclear", "missing"]
Basis = Literal["measured", "predicted", "ceiling"]


@dataclass(frozen=True, slots=True)
class Gain:
    """How many times faster something is, with its 95 % interval."""

    factor: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """What one phase of the loop costs."""

    name: str
    share: float
    """Of the wall time."""
    wall_s: float
    """Seconds per million transitions."""
    cpu_s: float
    """CPU seconds of all threads per million transitions."""
    calls: int
    """Per million transitions."""
    p50_us: float
    p95_us: float


@dataclass(frozen=True, slots=True)
class Moment:
    """A stretch of the loop that was examined, for plots over time."""

    at_s: float
    """Wall seconds since the loop began, at the stretch's end."""
    steps: int
    """Transitions since the loop began."""
    steps_per_s: float
    cpu_us_per_step: float
    rss_mb: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """An experiment: one thing changed, both sides in alternating turns."""

    name: str
    question: str
    change: str
    """What was changed, as a flag where there is one."""
    verdict: Verdict
    told: str
    """The answer in a sentence."""
    alters_learning: str = ""
    """How the change affects what is learnt; empty if it does not."""
    gain: Gain | None = None
    """Transitions per second with the change, over those without."""
    cpu_gain: Gain | None = None
    """The same per CPU second of this process."""
    pairs: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """Something worth changing."""

    cause: str
    """Short name: store, updates, env, ..."""
    title: str
    """What is slow."""
    evidence: tuple[str, ...]
    advice: str
    """What to change."""
    gain: Gain
    basis: Basis
    """Whether the gain was seen with the change made, follows from measured parts, or is what could
    be had if the cause cost nothing."""
    alters_learning: str = ""
    after: str = ""
    """Causes that must be cured first for this gain to be seen; empty if none."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Settings to change, by dotted name."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The loop as it was found."""

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
    """Arithmetic per CPU second over the best this machine was seen to do; None if unknown."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is known when an examination ends."""

    target: str
    version: str
    budget_s: float
    took_s: float
    load: float | None
    """Load of the machine when the examination began; None where it is not told."""
    speed: Speed | None
    coverage: float
    """Share of the wall time that the phases account for."""
    phases: tuple[PhaseRow, ...]
    findings: tuple[Finding, ...]
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]
    history: tuple[Moment, ...]
    interrupted: bool = False
    cores: int | None = None
    """Cores that the process may use."""
    proof: Outcome | None = None
    profile: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return asdict(self)
