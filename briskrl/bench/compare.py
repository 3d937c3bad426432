"""Paired comparisons: variants measured in alternating slices, with an interval for their ratio.

The speed of a shared machine changes from second to second by more than most settings change it. So
variants take turns in quick succession, and only ratios within one turn count. The logarithms of
these ratios are averaged without the outermost eighth at each end, where disturbances by other
processes end up; the interval is Student's for trimmed means (Yuen 1974).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import atan, cos, exp, log, pi, sin, sqrt
from statistics import fmean, median, stdev
from time import perf_counter

Slice = Callable[[], float]
"""Runs one variant for a moment; returns its rate (steps per second, say)."""

CONFIDENCE = 0.95
EARLY_CONFIDENCE = 0.997
"""Confidence needed to stop early: looking at the result after every turn raises the rate of false
positives (Haybittle 1971, Peto 1976)."""
MIN_TURNS = 4
TRIM = 8
"""1 / TRIM of the ratios are left out at each end."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Speed of the new variant over the old one."""

    ratio: float
    low: float
    """Ends of the interval; 0 and infinity with fewer than two pairs."""
    high: float
    pairs: int

    @property
    def is_faster(self) -> bool:
        """Whether the new variant is significantly faster."""
        return self.low > 1

    @property
    def is_slower(self) -> bool:
        """Whether the new variant is significantly slower."""
        return self.high < 1

    @property
    def is_clear(self) -> bool:
        """Whether the difference is significant."""
        return self.is_faster or self.is_slower


def estimate(logs: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Trimmed mean ratio and its interval, from the logarithms of the ratios."""
    count = len(logs)
    if count == 0:
        return Estimate(1.0, 0.0, float("inf"), 0)
    trimmed = count // TRIM
    ordered = sorted(logs)
    kept = ordered[trimmed : count - trimmed]
    center = fmean(kept)
    if len(kept) < 2:
        return Estimate(exp(center), 0.0, float("inf"), count)
    winsorized = [min(max(value, kept[0]), kept[-1]) for value in ordered]
    mean = fmean(winsorized)
    squares = sum((value - mean) ** 2 for value in winsorized)
    error = sqrt(squares / (len(kept) * (len(kept) - 1)))
    half_width = t_quantile(len(kept) - 1, confidence) * error
    return Estimate(exp(center), exp(center - half_width), exp(center + half_width), count)


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Median over the turns of the ratio of two variants' rates."""
    return median(a / b for a, b in zip(above, below, strict=True))


class PairedComparison:
    """Slices of two or more variants in turns.

    The order is reversed in every other turn, so that a steady drift of the machine cancels.

    Args:
        variants: A slice per variant. The first is the baseline ("old"), the second the one that
            `estimate` compares with it ("new").
    """

    def __init__(self, **variants: Slice) -> None:
        self._variants = variants
        self.rates: dict[str, list[float]] = {name: [] for name in variants}
        """Rates of every variant, one per turn."""
        self.turns = 0

    def take_turn(self) -> None:
        """Run one slice of every variant."""
        names = list(self._variants)
        rates = {
            name: self._variants[name]() for name in (names[::-1] if self.turns % 2 else names)
        }
        self.record(**rates)

    def record(self, **rates: float) -> None:
        """Add a turn that was measured elsewhere."""
        for name, rate in rates.items():
            self.rates.setdefault(name, []).append(rate)
        self.turns += 1

    def take_turns(self, turns: int, *, warm_up: bool = False) -> None:
        """Run a number of turns, after one that does not count if `warm_up` is set."""
        if warm_up:
            for run_slice in self._variants.values():
                run_slice()
        for _ in range(turns):
            self.take_turn()

    def median(self, name: str) -> float:
        """Median rate of a variant."""
        return median(self.rates[name])

    def median_ratio(self, above: str, below: str) -> float:
        """Median over the turns of the ratio of two variants."""
        return median_ratio(self.rates[above], self.rates[below])

    def estimate(self, confidence: float = CONFIDENCE) -> Estimate:
        """Speed of the second variant over the first, from all turns so far."""
        old, new = list(self.rates.values())[:2]
        return estimate([log(b / a) for a, b in zip(old, new, strict=True)], confidence)

    def run(
        self,
        *,
        turns: int,
        min_turns: int = MIN_TURNS,
        seconds: float = float("inf"),
        precision: float = 0.0,
        stop: Callable[[], bool] = lambda: False,
    ) -> Estimate:
        """Take turns until the difference is significant or a limit is reached.

        Args:
            turns: Maximum number of turns, over all calls.
            min_turns: Turns before which no difference counts as significant.
            seconds: Time limit; a turn that has begun is finished.
            precision: Relative half width of the interval at which to stop in any case.
            stop: Called before every turn; True stops.
        """
        begin = perf_counter()
        while self.turns < turns and perf_counter() - begin < seconds and not stop():
            self.take_turn()
            if self.turns >= min_turns and self._is_decided(precision):
                break
        return self.estimate()

    def _is_decided(self, precision: float) -> bool:
        current = self.estimate(EARLY_CONFIDENCE)
        return current.is_clear or log(current.high / current.low) < 2 * precision


@cache
def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """Half width of a two-sided Student interval, in standard errors."""
    low, high = 0.0, 1.0
    while _t_probability(high, freedom) < confidence:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if _t_probability(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return high


def _t_probability(t: float, freedom: int) -> float:
    """Probability of a value between -t and t (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
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
class CostPair:
    """CPU seconds of equally many iterations in a long run and in a new replica of it."""

    run_s: float
    replica_s: float


def cost_ratio(pairs: Sequence[CostPair]) -> float | None:
    """Total CPU time of the run over that of its replica; None without pairs."""
    replica_s = sum(pair.replica_s for pair in pairs)
    return sum(pair.run_s for pair in pairs) / replica_s if replica_s > 0 else None


def standard_error(pairs: Sequence[CostPair]) -> float | None:
    """Standard error of `cost_ratio`, from the scatter between pairs; None below two pairs."""
    ratio, count = cost_ratio(pairs), len(pairs)
    if ratio is None or count < 2:
        return None
    squares = sum((pair.run_s - ratio * pair.replica_s) ** 2 for pair in pairs)
    return sqrt(squares * count / (count - 1)) / sum(pair.replica_s for pair in pairs)


@dataclass(frozen=True, slots=True)
class SeedMean:
    """Mean over seeds with the ends of its 95 % Student interval; None with a single run."""

    mean: float
    low: float | None
    high: float | None
    runs: int

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval."""
        return None if self.high is None else self.high - self.mean


def mean_of(values: Sequence[float]) -> SeedMean | None:
    """Mean of independent values with its interval; None without values."""
    if not values:
        return None
    mean, count = fmean(values), len(values)
    if count == 1:
        return SeedMean(mean, None, None, 1)
    half_width = t_quantile(count - 1) * stdev(values) / sqrt(count)
    return SeedMean(mean, mean - half_width, mean + half_width, count)
