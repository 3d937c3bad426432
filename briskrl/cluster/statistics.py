"""Aggregate scores over runs, and how sure one can be of them, as rliable defines it.

Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice"
(https://arxiv.org/abs/2108.13264). Scores are arrays of (runs, tasks), or of (runs,) for one task.
Intervals come from the stratified percentile bootstrap: runs are drawn with replacement, for every
task on its own. The same scores always give the same interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from briskrl.core.errors import BriskError

CONFIDENCE = 0.95
RESAMPLES = 50_000
"""Samples of a bootstrap; rliable's default."""
FEW_RESAMPLES = 2_000
"""Samples of a bootstrap of curves and of pairs of groups, which are many."""
FEW_RUNS = 5
"""Runs below which a bootstrap interval is much too narrow: it never goes beyond their scores."""
CHUNK = 2**22
"""Numbers that are held at the same time while resampling."""

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
"""Reduces the last two axes of scores, (..., runs, tasks), to one number each."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A statistic of the scores of several runs, with the ends of its interval."""

    value: float
    low: float | None
    """None with a single run, which says nothing about the spread between runs."""
    high: float | None
    runs: int


def interquartile_mean(scores: Array) -> Array:
    """Mean of all scores without the lowest and the highest quarter, over runs and tasks alike."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    count = flat.shape[-1]
    # Whole scores are cut, as in scipy.stats.trim_mean: none of 3, one at each end of 4 to 7.
    cut = count // 4
    mean: Array = flat[..., cut : count - cut].mean(axis=-1)
    return mean


def mean(scores: Array) -> Array:
    """Mean over tasks of the mean over runs."""
    result: Array = scores.mean(axis=(-2, -1))
    return result


def median(scores: Array) -> Array:
    """Median over tasks of the mean over runs; with one task, that is the mean."""
    result: Array = np.median(scores.mean(axis=-2), axis=-1)
    return result


def optimality_gap(target: float = 1.0) -> Statistic:
    """A statistic: how far scores stay below `target` on average; higher ones count as `target`."""

    def gap(scores: Array) -> Array:
        result: Array = target - np.minimum(scores, target).mean(axis=(-2, -1))
        return result

    return gap


def aggregate(
    scores: ArrayLike,
    statistic: Statistic = interquartile_mean,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Aggregate:
    """A statistic of scores with its bootstrap interval.

    Args:
        scores: (runs, tasks), or (runs,) for one task.
        statistic: What to compute.
        confidence: Share of intervals that hold the true value, for many runs.
        resamples: Samples of the bootstrap.
        seed: Seed of the bootstrap.

    Raises:
        BriskError: There are no scores, or one of them is not a finite number.
    """
    table = _as_table(scores)
    runs, tasks = table.shape
    value = float(statistic(table))
    if runs == 1:
        return Aggregate(value, None, None, runs)
    rng = np.random.default_rng(seed)
    samples = [
        statistic(table[rng.integers(runs, size=(size, runs, tasks)), np.arange(tasks)])
        for size in _chunks(resamples, table.size)
    ]
    low, high = _percentiles(np.concatenate(samples), confidence)
    return Aggregate(value, float(low), float(high), runs)


def probability_of_improvement(
    scores: ArrayLike,
    others: ArrayLike,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = FEW_RESAMPLES,
    seed: int = 0,
) -> Aggregate:
    """How likely a run of the first group scores higher than one of the second; ties are halves.

    This is the statistic of Mann and Whitney over the number of pairs, averaged over tasks. Both
    groups are resampled independently; `runs` of the result is the size of the smaller group, and
    there is no interval if that is 1.

    Raises:
        BriskError: There are no scores, one of them is not a finite number, or the groups have
            different numbers of tasks.
    """
    ours, theirs = _as_table(scores), _as_table(others)
    if ours.shape[1] != theirs.shape[1]:
        raise BriskError(
            f"Groups can only be compared on the same tasks; they have {ours.shape[1]} and "
            f"{theirs.shape[1]}."
        )
    differences = ours.T[:, :, None] - theirs.T[:, None, :]
    wins = (np.sign(differences) + 1) / 2
    value, runs = float(wins.mean()), min(len(ours), len(theirs))
    if runs == 1:
        return Aggregate(value, None, None, runs)
    rng = np.random.default_rng(seed)
    samples = [
        np.einsum(
            "btx,txy,bty->b",
            _draw_shares(rng, size, ours.shape),
            wins,
            _draw_shares(rng, size, theirs.shape),
            optimize=True,
        )
        / wins.shape[0]
        for size in _chunks(resamples, wins.size)
    ]
    low, high = _percentiles(np.concatenate(samples), confidence)
    return Aggregate(value, float(low), float(high), runs)


@dataclass(frozen=True, slots=True)
class AggregateCurve:
    """Interquartile means of curves, point by point; `low` and `high` as in `Aggregate`."""

    value: Array
    low: Array | None
    high: Array | None


def aggregate_curve(
    curves: ArrayLike, *, confidence: float = CONFIDENCE, seed: int = 0
) -> AggregateCurve:
    """The interquartile mean over runs at every point, with pointwise bootstrap intervals.

    Args:
        curves: Scores of (runs, points).
        confidence: As for `aggregate`.
        seed: Seed of the bootstrap; whole curves are resampled, so that the band is smooth.

    Raises:
        BriskError: There are no scores, or one of them is not a finite number.
    """
    table = _as_table(curves)
    runs = len(table)
    value = interquartile_mean(table.T[:, :, None])
    if runs == 1:
        return AggregateCurve(value, None, None)
    rng = np.random.default_rng(seed)
    samples = [
        interquartile_mean(
            table[rng.integers(runs, size=(size, runs))].transpose(0, 2, 1)[..., None]
        )
        for size in _chunks(FEW_RESAMPLES, table.size)
    ]
    low, high = _percentiles(np.concatenate(samples), confidence)
    return AggregateCurve(value, low, high)


def _as_table(scores: ArrayLike) -> Array:
    """Scores as (runs, tasks)."""
    table = np.asarray(scores, np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or not table.size:
        raise BriskError("There are no scores to aggregate.")
    if not np.isfinite(table).all():
        raise BriskError("Scores that are not finite numbers cannot be aggregated.")
    return table


def _chunks(total: int, size: int) -> Iterator[int]:
    """Parts of `total` samples of `size` numbers each that fit into memory together."""
    step = max(1, CHUNK // size)
    for begin in range(0, total, step):
        yield min(step, total - begin)


def _draw_shares(rng: np.random.Generator, size: int, shape: tuple[int, ...]) -> Array:
    """How often every run of every task occurs in `size` resamples, as shares: (size, T, R)."""
    runs, tasks = shape
    return rng.multinomial(runs, np.full(runs, 1 / runs), size=(size, tasks)) / runs


def _percentiles(samples: Array, confidence: float) -> tuple[Array, Array]:
    """The ends of the middle `confidence` of the samples, along the first axis."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(samples, [tail, 1 - tail], axis=0)
    return low, high
