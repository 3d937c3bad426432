"""Means over runs, with Student's interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from briskrl.bench.paired import student


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over independent runs, and the ends of its 95 % interval; None of a single run."""

    mean: float
    low: float | None
    high: float | None
    runs: int

    @property
    def reach(self) -> float | None:
        """Half the width of the interval."""
        return None if self.high is None else self.high - self.mean


def mean_of(values: Sequence[float]) -> Mean | None:
    """The mean of some values with its interval; None without values."""
    if not values:
        return None
    middle, count = fmean(values), len(values)
    if count == 1:
        return Mean(middle, None, None, 1)
    reach = student(count - 1) * stdev(values) / sqrt(count)
    return Mean(middle, middle - reach, middle + reach, count)
