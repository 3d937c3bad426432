"""Progress of a run, sampled between iterations into arrays allocated beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from time import process_time

import numpy as np
import psutil
from numpy.typing import NDArray

from briskrl.training.recorder import RunRecorder

MOST_ROWS = 32_768
RSS_EVERY = 64
"""Asking the kernel for the memory in use takes microseconds, so not every sample does."""


class ProgressSampler:
    """A training hook that notes how far the run is and what it has cost.

    Nothing it keeps grows while the run goes on: the growth of memory it reports is the run's.
    """

    def __init__(self, *, steps: int, num_envs: int) -> None:
        iterations = -(-steps // num_envs)
        self._stride = -(-iterations // MOST_ROWS)
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
        if self._count % RSS_EVERY == 0 or at_end:
            self._rss_last = self._process.memory_info().rss
            self._rss_first = self._rss_first or self._rss_last
        self._count += 1

    @property
    def rss_growth_mb(self) -> float:
        """Growth of the resident set between the first and the last look."""
        return (self._rss_last - self._rss_first) / 2**20

    @property
    def env_steps(self) -> NDArray[np.float64]:
        """Transitions collected at every sample."""
        return self._rows[: self._count, 0]

    @property
    def episodes(self) -> NDArray[np.float64]:
        """Episodes ended at every sample."""
        return self._rows[: self._count, 1]

    @property
    def updates(self) -> NDArray[np.float64]:
        """Updates done at every sample."""
        return self._rows[: self._count, 2]

    @property
    def cpu_s(self) -> NDArray[np.float64]:
        """CPU seconds of the process at every sample."""
        return self._rows[: self._count, 3]


@dataclass(frozen=True, slots=True)
class Early:
    """How the first episodes compare with the rest."""

    ratio: float
    """Their speed over the median speed of the stretches that follow."""
    spread: tuple[float, float]
    """Speeds of those stretches over their median, 10th and 90th percentile: a ratio within it is
    no news, only the unrest of the machine."""


def early_speed(
    env_steps: NDArray[np.float64],
    episodes: NDArray[np.float64],
    updates: NDArray[np.float64],
    cpu_s: NDArray[np.float64],
    *,
    episodes_early: int,
) -> Early | None:
    """Speed of the first episodes over the speed of the rest, in steps per CPU second.

    Before `learning_starts` no updates are due and steps are several times cheaper, which would
    hide any slowness of the first calls. So the early stretch begins with the first update and
    lasts until `episodes_early` more episodes have ended: both sides of the ratio act, step, store
    and learn. The rest is cut into stretches of as many steps, and the median of their speeds
    stands for it, which a neighbour's burst on the machine or a checkpoint does not move.

    Returns:
        The comparison, or None if the run is too short for two stretches.
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
    return Early(ratio=typical / float(cost[0]), spread=(float(low), float(high)))


def late_cost_ratio(env_steps: NDArray[np.float64], cpu_s: NDArray[np.float64]) -> float | None:
    """CPU per step in the last fifth of a run over that in its second fifth; None if too short.

    The first fifth is left out: it holds the steps before learning begins.
    """
    if len(env_steps) < 2:
        return None
    marks = env_steps[-1] * np.array([0.2, 0.4, 0.8, 1.0])
    at = np.interp(marks, env_steps, cpu_s)
    if at[1] <= at[0]:
        return None
    return float((at[3] - at[2]) / (at[1] - at[0]))
