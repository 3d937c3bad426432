"""Intervals are those of the ratios of the turns."""

from __future__ import annotations

import pytest

from briskrl.bench.compare import PairedComparison
from briskrl.cluster.bench.command import ExecutorFigures
from briskrl.cluster.bench.ratios import interval_of


def compared(*turns: tuple[float, float]) -> PairedComparison:
    sides = PairedComparison()
    for one, two in turns:
        sides.record(one=one, two=two)
    return sides


def test_the_interval_contains_the_ratio_of_most_turns():
    figures = ExecutorFigures()
    interval_of(figures, "ratio", compared((1, 1.9), (2, 4), (1, 2.1), (3, 6)), "two", "one")
    low, high = figures.intervals["ratio"]
    assert 1.8 < low < 2.0 < high < 2.2


def test_both_directions_are_inverse():
    figures, sides = ExecutorFigures(), compared((1, 1.9), (2, 4), (1, 2.1))
    interval_of(figures, "up", sides, "two", "one")
    interval_of(figures, "down", sides, "one", "two")
    assert figures.intervals["up"][0] == pytest.approx(1 / figures.intervals["down"][1])


def test_one_turn_has_no_interval():
    figures = ExecutorFigures()
    interval_of(figures, "ratio", compared((1, 2)), "two", "one")
    assert figures.intervals == {}
