"""`brisk bench cluster`: how speed grows with jobs and with replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from briskrl.bench.command import BenchCommand, Report, Slices
from briskrl.core.errors import BriskError

EXECUTORS: tuple[Literal["local", "ray"], ...] = ("local", "ray")
WORKERS = (1, 2, 4, 8)
"""Numbers of jobs at a time; each is compared with one."""

DESCRIPTION = """\
How speed grows with jobs and with replicas, with local processes and with Ray.

  jobs_scaling        finished runs per hour with 1, 2, 4 and 8 workers over those with one, on an
                      environment that sleeps 5 ms per step: 8 with 8 workers means that jobs cost
                      nothing but their sleep
  two_jobs_ratio      the same for two one-thread runs that compute (PPO on compiled CartPole) over
                      one; at most the number of cores
  overhead_per_job_s  cost of a run that trains next to nothing, after the first one: CPU seconds of
                      all processes with local, seconds with Ray
  replicas_ratio      steps per second of PPO with 2 replicas over 1, at equal total environments,
                      one thread each; the smaller one of replicas_ratios (CartPole and CAGE-2)
  averaging_share     share of the time that 2 replicas spend in averaging gradients; the larger one
                      of both tasks
  replicas_of_4_ratio steps per second with 4 replicas over 1, on the environment that sleeps
  intervals           95 % intervals of the ratios

Sides of a comparison take turns. Rates are by wall time, because these comparisons are about
waiting: measure on an idle machine. Ratios are medians over the turns. What cannot be measured is
null, with the cause in `reasons`."""

EXAMPLES = """\
examples:
  brisk bench cluster
  brisk bench cluster --only local --slices 9 --json
  brisk bench cluster --only local --parts jobs --seconds 5"""

Part = Literal["jobs", "two_jobs", "overhead", "replicas"]
PARTS: tuple[Part, ...] = ("jobs", "two_jobs", "overhead", "replicas")


@dataclass(frozen=True, slots=True)
class ClusterBench:
    """Settings of `brisk bench cluster`."""

    only: Literal["local", "ray"] | None = None
    """Measure this executor alone."""
    parts: Annotated[tuple[Part, ...], Meta(min_length=1)] = PARTS
    """What to measure."""
    seconds: Annotated[float, Meta(gt=0, le=3600)] = 10.0
    """Seconds that each run trains; short ones consist of their start and end."""
    slices: Slices = 5
    """Turns of each comparison; the figures are medians over them."""
    address: str | None = None
    """Ray cluster to use; one is started for the benchmark if absent."""

    def check(self) -> list[str]:
        """Problems with combinations of settings, one sentence each."""
        if self.address is not None and self.only == "local":
            return [f"address {self.address!r} is for ray, which --only local leaves out."]
        return []


@dataclass(slots=True)
class ExecutorFigures:
    """What was measured with one executor; None for what could not be."""

    jobs_scaling: dict[str, float | None] = field(
        default_factory=lambda: dict.fromkeys(map(str, WORKERS))
    )
    two_jobs_ratio: float | None = None
    overhead_per_job_s: float | None = None
    replicas_ratio: float | None = None
    averaging_share: float | None = None
    replicas_ratios: dict[str, float] = field(default_factory=dict)
    """By task."""
    averaging_shares: dict[str, float] = field(default_factory=dict)
    replicas_of_4_ratio: float | None = None
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Ends of the 95 % intervals of ratios, by their names."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why parts are missing."""


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """Scaling of jobs and replicas with both executors."""

    local: ExecutorFigures
    ray: ExecutorFigures
    cores: int
    seconds: float
    slices: int


def measure_cluster(bench: ClusterBench, report: Report) -> ClusterFigures:
    """Measure both executors, one after the other."""
    from briskrl.core.cpu import usable_cores

    found = {name: _measure_executor(name, bench, report) for name in EXECUTORS}
    return ClusterFigures(found["local"], found["ray"], usable_cores(), bench.seconds, bench.slices)


def _measure_executor(
    name: Literal["local", "ray"], bench: ClusterBench, report: Report
) -> ExecutorFigures:
    from briskrl.cluster.bench.job_parts import measure_jobs
    from briskrl.cluster.bench.replica_parts import measure_replicas

    figures = ExecutorFigures()
    if bench.only not in (None, name):
        figures.reasons["all"] = f"left out by --only {bench.only}"
        return figures
    steps: list[tuple[str, Callable[..., None]]] = [
        ("jobs", measure_jobs),
        ("replicas", measure_replicas),
    ]
    for part, measure in steps:
        try:
            measure(name, bench, figures, lambda text: report(f"{name}: {text}"))
        except BriskError as error:
            figures.reasons[part] = str(error)
            report(f"{name}: {part} cannot be measured: {error}")
    for part in PARTS:
        if part not in bench.parts:
            figures.reasons[part] = "left out by --parts"
    return figures


def _cpu_seconds(bench: ClusterBench) -> float:
    turns, executors = bench.slices, 1 if bench.only else 2
    jobs = len(WORKERS) + 1 + 2
    replicas = 2 * 2 + 2
    return executors * turns * bench.seconds * (jobs + replicas)


COMMAND = BenchCommand(
    DESCRIPTION,
    EXAMPLES,
    ClusterBench,
    measure_cluster,
    _cpu_seconds,
    reports=True,
)
