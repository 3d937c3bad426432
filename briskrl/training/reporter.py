"""What a run tells the world: plain records, and the protocol of whoever listens."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, Protocol

from briskrl.core.types import JSON

StopReason = Literal["finished", "sigint", "sigterm"]


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What is about to run."""

    run_dir: str
    env: str
    algo: str
    device: str
    threads: int
    overlap: bool
    """Whether one more thread learns meanwhile."""
    num_envs: int
    total_steps: int | None
    """None if the run ends by episodes."""
    resumed: bool
    """Whether an earlier run is continued."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come; rates are over the time since the last report."""

    env_steps: int
    total_steps: int | None
    """None if the run ends by episodes."""
    fraction: float
    """Share of the budget used up."""
    eta_s: float | None
    """Seconds left at the present speed; None before there is one."""
    episodes: int
    updates: int
    wall_s: float
    cpu_s: float
    steps_per_s: float
    achieved_gflops: float | None
    """See Effort, as for the next."""
    machine_fraction: float | None
    mean_return: float | None
    """Over the most recent episodes; None before the first one ends."""
    mean_score: float | None
    epsilon: float | None
    loss: float | None
    phases: dict[str, float]
    """Seconds per phase since training began."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did; times exclude the warm-up, which is told apart."""

    run_dir: str
    algo: str
    env: str
    seed: int
    env_steps: int
    episodes: int
    steps_per_episode: float | None
    updates: int
    updates_per_transition: float
    """Updates per transition collected after learning_starts."""
    learning_starts: int
    wall_s: float
    cpu_s: float
    warmup_s: float
    steps_per_s: float
    flops_per_step: float
    """See Effort, as for the next three."""
    achieved_gflops: float | None
    machine_gflops: float | None
    machine_fraction: float | None
    phases: dict[str, float]
    mean_return: float | None
    """Over the most recent episodes (at most 1000)."""
    mean_score: float | None
    exact_resume: bool
    """Whether a resume of this run continues to the same bits."""
    stopped: StopReason

    def as_json(self) -> dict[str, JSON]:
        """The record as a JSON object."""
        return asdict(self)


class Reporter(Protocol):
    """Listens to a run; called between iterations, never inside one."""

    def on_start(self, info: RunInfo) -> None:
        """Everything is built; warm-up comes next and may have to compile."""
        ...

    def on_warmup(self, seconds: float) -> None:
        """Warm-up is over."""
        ...

    def on_progress(self, progress: Progress) -> None:
        """Called every few seconds at most."""
        ...

    def on_note(self, text: str) -> None:
        """Something worth a line, such as a damaged checkpoint that was skipped."""
        ...

    def on_end(self, result: RunResult) -> None:
        """The run has stopped and is saved."""
        ...


class SilentReporter:
    """Listens and says nothing."""

    def on_start(self, info: RunInfo) -> None:
        """Ignore."""

    def on_warmup(self, seconds: float) -> None:
        """Ignore."""

    def on_progress(self, progress: Progress) -> None:
        """Ignore."""

    def on_note(self, text: str) -> None:
        """Ignore."""

    def on_end(self, result: RunResult) -> None:
        """Ignore."""
