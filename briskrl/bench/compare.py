"""Two sides in alternating slices: how much faster the new one is, with an interval.

A shared machine changes its speed from second to second by more than most settings do. So the two
sides take turns in quick succession, each pair of neighbouring slices gives one ratio, and only
those ratios are looked at. Their logarithms are averaged without the outermost eighth on each side,
which is where a neighbour's bursts end up; the interval is Student's for trimmed means (Yuen 1974).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import atan, cos, exp, log, pi, sin, sqrt
from statistics import fmean, stdev
from time import perf_counter

import numpy as np

Slice = Callable[[], float]
"""Works for a moment; returns what it got done per second."""

CONFIDENCE = 0.95
EARLY_CONFIDENCE = 0.997
"""To stop before the end more must be seen, because whoever looks often is fooled sooner (Haybittle
1971, Peto 1976)."""
FEWEST_PAIRS = 4
TRIMMED = 8
"""One ratio in so many is left out, on each side."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """How many times as fast the new side is as the old one."""

    ratio: float
    low: float
    """Ends of the interval; 0 and infinity while there are too few pairs to tell."""
    high: float
    pairs: int

    @property
    def is_faster(self) -> bool:
        """Whether the new side is faster beyond chance."""
        return self.low > 1

    @property
    def is_slower(self) -> bool:
        """Whether the new side is slower beyond chance."""
        return self.high < 1

    @property
    def is_clear(self) -> bool:
        """Whether one of the sides is faster beyond chance."""
        return self.is_faster or self.is_slower


def estimate(logs: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """The typical ratio and its interval, from the logarithms of the pairs' ratios."""
    count = len(logs)
    if count == 0:
        return Estimate(1.0, 0.0, float("inf"), 0)
    left_out = count // TRIMMED
    ordered = np.sort(np.asarray(logs, np.float64))
    kept = ordered[left_out : count - left_out]
    middle = float(kept.mean())
    if len(kept) < 2:
        return Estimate(exp(middle), 0.0, float("inf"), count)
    pulled_in = np.clip(ordered, kept[0], kept[-1])
    squares = float(((pulled_in - pulled_in.mean()) ** 2).sum())
    error = sqrt(squares / (len(kept) * (len(kept) - 1)))
    half_width = t_quantile(len(kept) - 1, confidence) * error
    # Hardly two pairs are equal to the last digit; if so, the interval is a point.
    return Estimate(exp(middle), exp(middle - half_width), exp(middle + half_width), count)


class PairedComparison:
    """Slices of two sides in turns; who begins changes from pair to pair, so that drift cancels.

    Args:
        old: A slice of the side to compare with.
        new: A slice of the side in question.
    """

    def __init__(self, old: Slice, new: Slice) -> None:
        self._old = old
        self._new = new
        self.old_rates: list[float] = []
        self.new_rates: list[float] = []

    def pair(self) -> None:
        """One more slice of each side."""
        if len(self.old_rates) % 2:
            new = self._new()
            old = self._old()
        else:
            old = self._old()
            new = self._new()
        self.old_rates.append(old)
        self.new_rates.append(new)

    def estimate(self, confidence: float = CONFIDENCE) -> Estimate:
        """How the new side compares by all pairs so far."""
        return estimate(self._logs(), confidence)

    def run(
        self,
        *,
        pairs: int,
        fewest: int = FEWEST_PAIRS,
        seconds: float = float("inf"),
        precision: float = 0.0,
        stop: Callable[[], bool] = lambda: False,
    ) -> Estimate:
        """More pairs, until it is clear who is faster or one of the limits is reached.

        Args:
            pairs: The most pairs, over all calls.
            fewest: Pairs before which no difference counts as clear.
            seconds: The longest that this may take; a pair that has begun is finished.
            precision: Half width of the interval, as a share, that suffices whoever is faster.
            stop: Asked before every pair.
        """
        begin = perf_counter()
        while len(self.old_rates) < pairs and perf_counter() - begin < seconds and not stop():
            self.pair()
            if len(self.old_rates) >= fewest and self._suffices(precision):
                break
        return self.estimate()

    def _suffices(self, precision: float) -> bool:
        now = self.estimate(EARLY_CONFIDENCE)
        return now.is_clear or log(now.high / now.low) < 2 * precision

    def _logs(self) -> list[float]:
        sides = zip(self.new_rates, self.old_rates, strict=True)
        return [log(new / old) for new, old in sides]


@cache
def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """How many standard errors an interval of a mean reaches to each side (Student 1908)."""
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if _within(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return high


def _within(t: float, freedom: int) -> float:
    """Chance of a value between -t and t (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = atan(t / sqrt(freedom))
    if freedom % 2:
        term, total = cos(angle), 0.0
        for k in range(1, freedom - 1, 2):
            total += term
            term *= (k + 1) / (k + 2) * cos(angle) ** 2
        return 2 / pi * (angle + sin(angle) * total)
    term, total = 1.0, 0.0
    for k in range(0, freedom - 1, 2):
        total += term
        term *= (k + 1) / (k + 2) * cos(angle) ** 2
    return sin(angle) * total


@dataclass(frozen=True, slots=True)
class Pair:
    """Neighbouring turns of as many iterations on both sides, in CPU seconds."""

    old_s: float
    """Cost in the process that has trained for long."""
    fresh_s: float
    """Cost in the process that has begun anew."""


def cost_ratio(pairs: Sequence[Pair]) -> float | None:
    """All CPU of the old side over all CPU of the fresh side; None without pairs."""
    fresh_s = sum(pair.fresh_s for pair in pairs)
    return sum(pair.old_s for pair in pairs) / fresh_s if fresh_s > 0 else None


def standard_error(pairs: Sequence[Pair]) -> float | None:
    """How far `cost_ratio` moves by chance, judged by the unrest between pairs; None below two."""
    ratio, count = cost_ratio(pairs), len(pairs)
    if ratio is None or count < 2:
        return None
    squares = sum((pair.old_s - ratio * pair.fresh_s) ** 2 for pair in pairs)
    return sqrt(squares * count / (count - 1)) / sum(pair.fresh_s for pair in pairs)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over independent runs, and the ends of its 95 % interval; None of a single run."""

    mean: float
    low: float | None
    high: float | None
    runs: int

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval."""
        return None if self.high is None else self.high - self.mean


def mean_of(values: Sequence[float]) -> Mean | None:
    """The mean of some values with its interval; None without values."""
    if not values:
        return None
    middle, count = fmean(values), len(values)
    if count == 1:
        return Mean(middle, None, None, 1)
    half_width = t_quantile(count - 1) * stdev(values) / sqrt(count)
    return Mean(middle, middle - half_width, middle + half_width, count)
