"""Paired comparisons: alternating slices, ratios and their intervals."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, log, sqrt

import numpy as np
import pytest

from briskrl.bench.compare import (
    CostPair,
    Estimate,
    PairedComparison,
    cost_ratio,
    estimate,
    median_ratio,
    standard_error,
    t_quantile,
)


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
def test_t_quantiles_match_published_tables(freedom: int, confidence: float, t: float) -> None:
    assert t_quantile(freedom, confidence) == pytest.approx(t, abs=1e-4)


def test_intervals_are_unbounded_below_two_pairs() -> None:
    assert estimate([]) == Estimate(1.0, 0.0, inf, 0)
    alone = estimate([log(2)])
    assert (alone.ratio, alone.low, alone.high) == (pytest.approx(2), 0.0, inf)
    assert not alone.is_clear


@pytest.mark.parametrize("count", [4, 7, 8, 20, 40])
def test_intervals_cover_the_true_ratio_at_the_stated_rate(count: int) -> None:
    rng = np.random.default_rng(count)
    drawn = log(1.3) + 0.2 * rng.standard_normal((1500, count))
    covered = [each.low <= 1.3 <= each.high for each in map(estimate, drawn.tolist())]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


def test_outliers_hardly_move_the_ratio() -> None:
    rng = np.random.default_rng(3)
    logs = log(1.2) + 0.02 * rng.standard_normal(32)
    logs[[3, 17]] += log(4)
    logs[9] -= log(6)
    found = estimate(logs.tolist())
    assert found.ratio == pytest.approx(1.2, rel=0.02)
    assert found.is_faster
    assert found.high / found.low < 1.05


class Machine:
    """A machine whose speed drifts; records which variant ran when."""

    def __init__(self, seed: int, noise: float = 0.05) -> None:
        self._rng = np.random.default_rng(seed)
        self._noise = noise
        self._speed = 0.0
        self.order: list[str] = []

    def variant(self, name: str, rate: float) -> Callable[[], float]:
        def run_slice() -> float:
            self.order.append(name)
            self._speed += 0.02
            return rate * exp(self._speed + self._noise * self._rng.standard_normal())

        return run_slice

    def compare(self, **rates: float) -> PairedComparison:
        return PairedComparison(**{name: self.variant(name, rate) for name, rate in rates.items()})


def test_the_order_alternates_so_that_drift_cancels() -> None:
    machine = Machine(0, noise=0.0)
    found = machine.compare(old=100.0, new=100.0).run(turns=10)
    assert "".join(name[0] for name in machine.order[:8]) == "onnoonno"
    assert found.pairs == 10
    assert found.ratio == pytest.approx(1.0)


def test_any_number_of_variants_take_turns() -> None:
    machine = Machine(0, noise=0.0)
    comparison = machine.compare(a=1.0, b=2.0, c=4.0)
    comparison.take_turns(4, warm_up=True)
    assert "".join(machine.order) == "abc" + "abccba" * 2
    assert [len(rates) for rates in comparison.rates.values()] == [4, 4, 4]
    assert comparison.median_ratio("c", "a") == pytest.approx(4.0, rel=0.05)
    assert comparison.estimate().ratio == pytest.approx(2.0, rel=0.01)


def test_turns_measured_elsewhere_count() -> None:
    comparison = PairedComparison(old=lambda: 1.0, new=lambda: 1.0)
    for old, new in ((1.0, 2.0), (4.0, 4.0), (1.0, 3.0)):
        comparison.record(old=old, new=new)
    assert comparison.turns == 3
    assert comparison.median("old") == 1.0
    assert comparison.median_ratio("new", "old") == 2.0
    assert median_ratio([2.0, 4.0, 3.0], [1.0, 4.0, 1.0]) == 2.0


def test_a_clear_difference_stops_early() -> None:
    found = Machine(1).compare(old=100.0, new=160.0).run(turns=50)
    assert found.pairs < 12
    assert found.is_faster
    assert found.low < 1.6 < found.high


def test_early_stopping_seldom_finds_a_difference_between_equal_variants() -> None:
    false_positives = 0
    for seed in range(200):
        false_positives += Machine(seed).compare(old=1.0, new=1.0).run(turns=24).is_clear
    assert false_positives <= 20


def test_a_precise_tie_stops_early() -> None:
    comparison = Machine(2, noise=0.01).compare(old=100.0, new=100.0)
    assert 4 <= comparison.run(turns=200, precision=0.05).pairs < 40


def test_stop_is_checked_between_turns() -> None:
    comparison = Machine(2).compare(old=1.0, new=1.0)
    assert comparison.run(turns=9, stop=lambda: comparison.turns == 3).pairs == 3
    assert comparison.run(turns=9, seconds=0.0).pairs == 3


def test_cost_ratio_is_the_ratio_of_total_seconds() -> None:
    assert cost_ratio([CostPair(1.0, 2.0), CostPair(5.0, 1.0)]) == 2.0


def test_cost_ratio_is_none_without_pairs() -> None:
    assert cost_ratio([]) is None
    assert standard_error([CostPair(1.0, 2.0)]) is None


def test_pairs_with_equal_ratios_have_no_standard_error() -> None:
    pairs = [CostPair(1.1 * cost, cost) for cost in (1.0, 3.0, 0.2)]
    assert cost_ratio(pairs) == pytest.approx(1.1)
    assert standard_error(pairs) == pytest.approx(0, abs=1e-12)


def test_standard_error_matches_the_scatter_of_ratios() -> None:
    rng = np.random.default_rng(5)
    ratios, errors = [], []
    for _ in range(400):
        pairs = [CostPair(*costs) for costs in 1 + 0.1 * rng.standard_normal((50, 2))]
        ratios.append(cost_ratio(pairs))
        errors.append(standard_error(pairs))
    assert np.mean(errors) == pytest.approx(np.std(ratios), rel=0.15)


def test_the_interval_of_a_few_ratios_is_students_by_hand() -> None:
    found = estimate([0.1, 0.2, 0.3, 0.4, 0.5])
    # The standard error, times Student's 0.975 quantile with four degrees of freedom.
    half_width = 2.776445 * 0.0707107
    assert log(found.ratio) == pytest.approx(0.3)
    assert log(found.low) == pytest.approx(0.3 - half_width, abs=1e-5)
    assert log(found.high) == pytest.approx(0.3 + half_width, abs=1e-5)


def test_the_interval_of_many_ratios_is_that_of_their_trimmed_mean() -> None:
    """Yuen 1974: one in eight is left out at each end, and counts as the outermost kept one."""
    found = estimate([-5.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 7.0])
    winsorized = [0.1, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.6]
    squares = sum((value - 0.35) ** 2 for value in winsorized)
    half_width = 2.570582 * sqrt(squares / (6 * 5))
    assert log(found.ratio) == pytest.approx(0.35)
    assert log(found.high / found.ratio) == pytest.approx(half_width, abs=1e-5)
