"""When training reached a score, and how long it took several runs.

The training curve of a run, after each of its episodes, is the mean score of the last `window`
episodes; before that many have ended there is no curve. The run has reached a score with the first
episode after which its curve is at that score or above. What happens later changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from briskrl.cluster.statistics import CONFIDENCE, FEW_RESAMPLES

WINDOW = 100
"""Episodes of a training curve's mean, unless runs are short; the usual number since Gym."""
LEAST_WINDOWS = 10
"""Windows that the run with the fewest episodes has at least, if the window is not given."""
ROUNDING = 1e-9
"""Relative error of a mean of equal numbers that still counts as that number."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """What it took the runs of a group to reach a score; a run that has not counts as infinite."""

    median: float
    """Over all runs; infinite if half of them or more have not reached the score."""
    low: float | None
    """Ends of the 95 % bootstrap interval of the median; None with a single run."""
    high: float | None
    reached: int
    """Runs that have reached the score."""
    runs: int


def default_window(episodes: Sequence[int]) -> int:
    """Episodes of the mean for runs with these numbers of episodes; the same for all of them."""
    return max(1, min(WINDOW, min(episodes) // LEAST_WINDOWS))


def training_curve(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """The means of `window` episodes in a row; the first is that after episode `window`.

    Returns:
        (len(values) - window + 1,), or (0,) if there are fewer episodes.
    """
    # Sums over millions of episodes stay small, and their rounding errors too.
    center = values.mean() if len(values) else 0.0
    totals = np.concatenate(([0.0], np.cumsum(values - center)))
    curve: NDArray[np.float64] = center + (totals[window:] - totals[:-window]) / window
    return curve


def steps_to_score(
    steps: NDArray[np.float64], values: NDArray[np.float64], score: float, *, window: int
) -> float | None:
    """Transitions after which the training curve first reached a score; None if it never did.

    Args:
        steps: Transitions of the run at the end of each episode, in ascending order.
        values: Score of each episode.
        score: The score to reach.
        window: Episodes of the mean.
    """
    curve = training_curve(values, window)
    slack = ROUNDING * float(np.abs(values).max(initial=0.0))
    reached = curve >= score - slack
    return float(steps[window - 1 + int(reached.argmax())]) if reached.any() else None


def aggregate_arrivals(times: Sequence[float | None], *, seed: int = 0) -> Arrival:
    """The median over runs with its bootstrap interval.

    Runs that have not reached the score count as infinite, so they can be neither left out nor
    averaged away. The median is known as long as more than half of the runs have reached it.

    Args:
        times: Steps or seconds of every run; None if it has not reached the score.
        seed: Seed of the bootstrap.
    """
    known = np.array([math.inf if time is None else time for time in times])
    runs, reached = len(known), int(np.isfinite(known).sum())
    median = float(np.median(known))
    if runs == 1:
        return Arrival(median, None, None, reached, runs)
    rng = np.random.default_rng(seed)
    samples = np.median(known[rng.integers(runs, size=(FEW_RESAMPLES, runs))], axis=1)
    tail = (1 - CONFIDENCE) / 2
    # Quantiles are samples themselves: between a number and infinity there is nothing.
    low, high = np.quantile(samples, [tail, 1 - tail], method="inverted_cdf")
    return Arrival(median, float(low), float(high), reached, runs)
