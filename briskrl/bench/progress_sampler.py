"""Progress and cost of a run, sampled between iterations into preallocated arrays."""

from __future__ import annotations

from dataclasses import dataclass
from time import process_time

import numpy as np
import psutil
from numpy.typing import NDArray

from briskrl.training.recorder import RunRecorder

MAX_ROWS = 32_768
RSS_INTERVAL = 64
"""Samples between two readings of the resident memory, which take microseconds."""


class ProgressSampler:
    """A training hook that records counters and CPU time.

    It allocates nothing during the run, so the memory growth it reports is that of the run.
    """

    def __init__(self, *, steps: int, num_envs: int) -> None:
        iterations = -(-steps // num_envs)
        self._stride = -(-iterations // MAX_ROWS)
        self._rows = np.full((iterations // self._stride + 2, 4), np.nan)
        self._steps = steps
        self._count = 0
        self._process = psutil.Process()
        self._rss_first = self._rss_last = 0

    def __call__(self, run: RunRecorder) -> None:
        """Take a sample if one is due."""
        counters = run.trainer.counters
        at_end = counters.env_steps >= self._steps
        if counters.iterations % self._stride and not at_end:
            return
        row = self._rows[self._count]
        row[0] = counters.env_steps
        row[1] = counters.episodes
        row[2] = counters.updates
        row[3] = process_time()
        if self._count % RSS_INTERVAL == 0 or at_end:
            self._rss_last = self._process.memory_info().rss
            self._rss_first = self._rss_first or self._rss_last
        self._count += 1

    @property
    def rss_growth_mb(self) -> float:
        """Growth of the resident memory between the first and the last reading."""
        return (self._rss_last - self._rss_first) / 2**20

    @property
    def env_steps(self) -> NDArray[np.float64]:
        """Transitions collected, at every sample."""
        return self._rows[: self._count, 0]

    @property
    def episodes(self) -> NDArray[np.float64]:
        """Episodes ended, at every sample."""
        return self._rows[: self._count, 1]

    @property
    def updates(self) -> NDArray[np.float64]:
        """Updates done, at every sample."""
        return self._rows[: self._count, 2]

    @property
    def cpu_s(self) -> NDArray[np.float64]:
        """CPU seconds of the process, at every sample."""
        return self._rows[: self._count, 3]


@dataclass(frozen=True, slots=True)
class EarlySpeed:
    """Speed of the first episodes relative to the rest of the run."""

    ratio: float
    """Over the median speed of equally long later windows."""
    spread: tuple[float, float]
    """10th and 90th percentile of those windows' speeds over their median: a ratio within it is
    measurement noise."""


def early_speed(
    env_steps: NDArray[np.float64],
    episodes: NDArray[np.float64],
    updates: NDArray[np.float64],
    cpu_s: NDArray[np.float64],
    *,
    episodes_early: int,
) -> EarlySpeed | None:
    """Speed of the first episodes over the speed of the rest, in steps per CPU second.

    Steps before `learning_starts` need no updates and are several times cheaper, which would hide
    slow first calls. So the early window begins with the first update and lasts until
    `episodes_early` more episodes have ended. The rest is cut into windows of equally many steps;
    the median of their speeds is robust against checkpoints and other processes.

    Returns:
        The comparison, or None if the run is too short for two windows.
    """
    learning = np.flatnonzero(updates > 0)
    if not len(learning):
        return None
    first = learning[0]
    ended = np.flatnonzero(episodes >= episodes[first] + episodes_early)
    if not len(ended):
        return None
    size = env_steps[ended[0]] - env_steps[first]
    edges = np.arange(env_steps[first], env_steps[-1] + 1, size)
    if len(edges) < 3:
        return None
    cost = np.diff(np.interp(edges, env_steps, cpu_s))
    typical = float(np.median(cost[1:]))
    low, high = np.percentile(typical / cost[1:], [10, 90])
    return EarlySpeed(ratio=typical / float(cost[0]), spread=(float(low), float(high)))


def late_cost_ratio(env_steps: NDArray[np.float64], cpu_s: NDArray[np.float64]) -> float | None:
    """CPU time per step in the last fifth of a run over that in its second fifth.

    The first fifth is left out because it includes the steps before learning begins. None if the
    run is too short.
    """
    if len(env_steps) < 2:
        return None
    marks = env_steps[-1] * np.array([0.2, 0.4, 0.8, 1.0])
    at = np.interp(marks, env_steps, cpu_s)
    if at[1] <= at[0]:
        return None
    return float((at[3] - at[2]) / (at[1] - at[0]))
