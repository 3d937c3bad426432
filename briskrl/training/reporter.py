"""The records that a run reports, and the protocol of their receiver."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, Protocol

from briskrl.core.types import JSON

StopSignal = Literal["sighup", "sigint", "sigterm"]
StopReason = Literal["finished", "callback"] | StopSignal


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Description of a run that is about to start."""

    run_dir: str
    env: str
    algo: str
    device: str
    threads: int
    overlap: bool
    """Whether a second thread learns while this one collects."""
    num_envs: int
    total_steps: int | None
    """None if the budget is a number of episodes."""
    resumed: bool
    """Whether the run continues an earlier one."""
    replicas: int = 1
    """Processes that train together."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run; rates are over the time since the last report."""

    env_steps: int
    total_steps: int | None
    """None if the budget is a number of episodes."""
    fraction: float
    """Share of the budget that is used."""
    eta_s: float | None
    """Seconds left at the current speed; None before it is known."""
    episodes: int
    updates: int
    wall_s: float
    cpu_s: float
    steps_per_s: float
    achieved_gflops: float | None
    """See Utilization, as for the next."""
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
    """The result of a run; times exclude the warm-up, which has its own field."""

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
    """See Utilization, as for the next three."""
    achieved_gflops: float | None
    machine_gflops: float | None
    machine_fraction: float | None
    phases: dict[str, float]
    mean_return: float | None
    """Over the most recent episodes (at most 1000)."""
    mean_score: float | None
    exact_resume: bool
    """Whether a resumed run is bit-identical to an uninterrupted one."""
    stopped: StopReason
    best_evaluation: dict[str, JSON] | None = None
    """The best evaluation during training, if there were any: env_steps, episodes, mean_score and
    more."""

    def as_json(self) -> dict[str, JSON]:
        """The record as a JSON object."""
        return asdict(self)


class Reporter(Protocol):
    """Receives reports of a run; called between iterations, never inside one."""

    def on_start(self, info: RunInfo) -> None:
        """Everything is built; the warm-up comes next and may compile."""
        ...

    def on_warmup(self, seconds: float) -> None:
        """Warm-up is over."""
        ...

    def on_progress(self, progress: Progress) -> None:
        """Called every few seconds at most."""
        ...

    def on_note(self, text: str) -> None:
        """A message for the user, for example about a damaged checkpoint that was skipped."""
        ...

    def on_end(self, result: RunResult) -> None:
        """The run has stopped and is saved."""
        ...


class SilentReporter:
    """Ignores all reports."""

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
