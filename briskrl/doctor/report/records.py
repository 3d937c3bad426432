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
    wall_s: float | None
    """Seconds per million transitions; None if no transitions were counted."""
    cpu_s: float | None
    """CPU seconds of all threads per million transitions; None if it was not measured."""
    calls: int
    """Calls per million transitions; 0 if they were not counted."""
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
    location: str = ""
    """File and lines: `train_dqn.py:350-357`; empty if the cause has no place in the code."""
    source: str = ""
    """These lines."""
    fix: str = ""
    """A few lines of code that make the change; empty if they depend too much on the script."""


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
class ScriptFacts:
    """What is known about an examined script besides its speed."""

    argv: tuple[str, ...]
    python: str
    """Version of the interpreter."""
    exit_code: int | None
    stopped: bool
    """Whether the doctor ended the script."""
    counters: tuple[tuple[str, str], ...]
    """Figures by name: steps, episodes, batch size, threads, memory, ..."""
    warnings: tuple[str, ...]
    """Patterns that are probably mistakes."""
    unseen: tuple[str, ...]
    """What the doctor could not see."""
    start_s: float | None
    """Seconds before the first environment step."""
    watching: Gain | None
    """Speed without the watcher over the speed with it."""
    counting: float
    """Share of the time that counting takes; it goes on while the rest is off."""


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
    script: ScriptFacts | None = None
    """Only of examined scripts."""

    def as_json(self) -> dict[str, Any]:
        """The report as plain data; the sentence of an outcome has the key `told`."""
        data = asdict(self)
        proof = [] if data["proof"] is None else [data["proof"]]
        for outcome in (*data["outcomes"], *proof):
            outcome["told"] = outcome.pop("answer")
        return data
