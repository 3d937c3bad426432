"""Intervals of the ratios of a comparison."""

from __future__ import annotations

from math import log

from briskrl.bench.compare import PairedComparison, estimate
from briskrl.cluster.bench.command import ExecutorFigures


def interval_of(
    figures: ExecutorFigures, name: str, sides: PairedComparison, above: str, below: str
) -> None:
    """Enter the 95 % interval of the ratio of two sides, if there are turns enough for one."""
    pairs = zip(sides.rates[above], sides.rates[below], strict=True)
    found = estimate([log(high / low) for high, low in pairs])
    if found.pairs > 1:
        figures.intervals[name] = (found.low, found.high)
