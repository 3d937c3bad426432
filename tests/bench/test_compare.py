"""Alternating slices, and intervals of their ratios."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, log

import numpy as np
import pytest

from briskrl.bench.compare import Estimate, PairedComparison, estimate, t_quantile


@pytest.mark.parametrize(
    ("freedom", "confidence", "t"),
    [
        (1, 0.95, 12.7062),
        (2, 0.95, 4.3027),
        (3, 0.95, 3.1824),
        (4, 0.99, 4.6041),
        (9, 0.95, 2.2622),
        (30, 0.9, 1.6973),
        (200, 0.95, 1.9719),
    ],
)
def test_reaches_are_those_of_published_tables(freedom: int, confidence: float, t: float) -> None:
    assert t_quantile(freedom, confidence) == pytest.approx(t, abs=1e-4)


def test_without_pairs_anything_is_possible() -> None:
    assert estimate([]) == Estimate(1.0, 0.0, inf, 0)
    alone = estimate([log(2)])
    assert (alone.ratio, alone.low, alone.high) == (pytest.approx(2), 0.0, inf)
    assert not alone.is_clear


@pytest.mark.parametrize("count", [4, 7, 8, 20, 40])
def test_intervals_hold_the_true_ratio_as_often_as_they_say(count: int) -> None:
    rng = np.random.default_rng(count)
    drawn = log(1.3) + 0.2 * rng.standard_normal((1500, count))
    held = [each.low <= 1.3 <= each.high for each in map(estimate, drawn.tolist())]
    assert np.mean(held) == pytest.approx(0.95, abs=0.02)


def test_bursts_of_a_neighbour_hardly_move_the_ratio() -> None:
    rng = np.random.default_rng(3)
    logs = log(1.2) + 0.02 * rng.standard_normal(32)
    logs[[3, 17]] += log(4)
    logs[9] -= log(6)
    found = estimate(logs.tolist())
    assert found.ratio == pytest.approx(1.2, rel=0.02)
    assert found.is_faster
    assert found.high / found.low < 1.05


class Machine:
    """A machine whose speed wanders, and that tells who ran when."""

    def __init__(self, seed: int, noise: float = 0.05) -> None:
        self._rng = np.random.default_rng(seed)
        self._noise = noise
        self._speed = 0.0
        self.order: list[str] = []

    def side(self, name: str, rate: float) -> Callable[[], float]:
        def turn() -> float:
            self.order.append(name)
            self._speed += 0.02
            return rate * exp(self._speed + self._noise * self._rng.standard_normal())

        return turn


def test_who_begins_changes_so_that_drift_cancels() -> None:
    machine = Machine(0, noise=0.0)
    comparison = PairedComparison(machine.side("old", 100.0), machine.side("new", 100.0))
    found = comparison.run(pairs=10)
    assert "".join(name[0] for name in machine.order[:8]) == "onnoonno"
    assert found.pairs == 10
    assert found.ratio == pytest.approx(1.0)


def test_a_clear_difference_ends_a_duel_early() -> None:
    machine = Machine(1)
    comparison = PairedComparison(machine.side("old", 100.0), machine.side("new", 160.0))
    found = comparison.run(pairs=50)
    assert found.pairs < 12
    assert found.is_faster
    assert found.low < 1.6 < found.high


def test_equal_sides_are_seldom_told_apart_however_often_one_looks() -> None:
    fooled = 0
    for seed in range(200):
        machine = Machine(seed)
        fooled += (
            PairedComparison(machine.side("a", 1.0), machine.side("b", 1.0)).run(pairs=24).is_clear
        )
    assert fooled <= 20


def test_a_precise_tie_ends_a_duel_early() -> None:
    machine = Machine(2, noise=0.01)
    comparison = PairedComparison(machine.side("old", 100.0), machine.side("new", 100.0))
    assert 4 <= comparison.run(pairs=200, precision=0.05).pairs < 40


def test_a_wish_to_stop_is_heard_between_pairs() -> None:
    machine = Machine(2)
    comparison = PairedComparison(machine.side("old", 1.0), machine.side("new", 1.0))
    assert comparison.run(pairs=9, stop=lambda: len(comparison.old_rates) == 3).pairs == 3
    assert comparison.run(pairs=9, seconds=0.0).pairs == 3
