"""Statistics over runs, against hand-computed values, plain loops and their promised coverage."""

from __future__ import annotations

import random
from statistics import fmean
from statistics import median as plain_median

import numpy as np
import pytest

from briskrl.cluster.statistics import (
    Aggregate,
    Statistic,
    aggregate,
    aggregate_curve,
    interquartile_mean,
    mean,
    median,
    optimality_gap,
    probability_of_improvement,
)
from briskrl.core.errors import BriskError

TWO_TASKS = [[1.0, 10.0], [2.0, 30.0], [6.0, 20.0]]


def plain_interquartile_mean(values: list[float]) -> float:
    cut = int(0.25 * len(values))
    return fmean(sorted(values)[cut : len(values) - cut])


def plain_improvement(ours: list[float], theirs: list[float]) -> float:
    pairs = [(a, b) for a in ours for b in theirs]
    return fmean(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 2.0, 9.0], 4.0),
        ([1.0, 2.0, 4.0, 100.0], 3.0),
        ([100.0, 1.0, 2.0, 4.0, 6.0], 4.0),
        ([0.0, -50.0, 3.0, 1.0, 2.0, 4.0, 90.0, 5.0], 2.5),
    ],
)
def test_interquartile_mean_leaves_out_whole_scores_of_both_outer_quarters(
    values: list[float], expected: float
) -> None:
    assert aggregate(values).value == expected


def test_tasks_are_pooled_for_the_interquartile_mean_and_averaged_for_the_others() -> None:
    assert aggregate(TWO_TASKS).value == fmean([2, 6, 10, 20])
    assert aggregate(TWO_TASKS, mean).value == fmean([3, 20])
    assert aggregate([[1.0, 4.0, 100.0]] * 2, median).value == plain_median([1, 4, 100])
    assert aggregate([[0.5, 2.0], [0.9, 0.2]], optimality_gap(1.0)).value == pytest.approx(
        1 - fmean([0.5, 1.0, 0.9, 0.2])
    )


@pytest.mark.parametrize("count", range(1, 14))
def test_interquartile_mean_equals_a_plain_loop(count: int) -> None:
    values = [random.Random(count).gauss(0, 1) for _ in range(count)]
    assert aggregate(values, resamples=10).value == pytest.approx(plain_interquartile_mean(values))


def test_bootstrap_interval_of_two_runs_is_known_exactly() -> None:
    # A resample is (0, 0), (1, 1) or mixed, with chances 1/4, 1/4 and 1/2.
    assert aggregate([0.0, 1.0], mean) == Aggregate(0.5, 0.0, 1.0, 2)
    half = aggregate([0.0, 1.0], mean, confidence=0.4)
    assert (half.low, half.high) == (0.5, 0.5)


def test_bootstrap_interval_equals_a_plain_loop_up_to_its_noise() -> None:
    values = [3.0, 5.0, 4.0, 9.0, 1.0, 6.0, 5.5]
    rng = random.Random(1)
    samples = sorted(
        plain_interquartile_mean(rng.choices(values, k=len(values))) for _ in range(20_000)
    )
    found = aggregate(values)
    assert found.low == pytest.approx(samples[500], abs=0.1)
    assert found.high == pytest.approx(samples[-501], abs=0.1)


def test_runs_are_resampled_for_every_task_on_its_own() -> None:
    # Drawn together, the two tasks would cancel and leave no spread.
    scores = np.array([[0.0, 1.0], [1.0, 0.0]] * 4)
    found = aggregate(scores, mean)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.4 < 0.6 < found.high
    # Tasks are never mixed: a task without spread adds none.
    steady = aggregate(np.array([[0.0, 1000.0]] * 4), mean)
    assert (steady.low, steady.high) == (500.0, 500.0)


def test_the_same_scores_give_the_same_interval_in_any_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.random.default_rng(0).normal(size=12)
    first = aggregate(values)
    assert aggregate(values) == first
    assert aggregate(values, seed=1) != first
    monkeypatch.setattr("briskrl.cluster.statistics.CHUNK", 1000)
    assert aggregate(values) == first


def test_probability_of_improvement_counts_pairs_and_halves_ties() -> None:
    ours, theirs = [1.0, 3.0, 3.0], [2.0, 3.0]
    # 1 beats none of two; each 3 beats the 2 and ties with the 3.
    assert probability_of_improvement(ours, theirs).value == pytest.approx(3 / 6)
    assert probability_of_improvement([5.0, 6.0], [1.0, 2.0]) == Aggregate(1.0, 1.0, 1.0, 2)
    assert probability_of_improvement([1.0, 2.0], [5.0, 6.0]) == Aggregate(0.0, 0.0, 0.0, 2)
    same = [2.0, 2.0, 7.0]
    assert probability_of_improvement(same, same).value == pytest.approx(0.5)


def test_probability_of_improvement_equals_a_plain_loop_and_averages_tasks() -> None:
    rng = np.random.default_rng(3)
    ours, theirs = rng.integers(0, 5, (6, 2)) * 1.0, rng.integers(0, 5, (4, 2)) * 1.0
    expected = [plain_improvement(list(ours[:, t]), list(theirs[:, t])) for t in range(2)]
    assert probability_of_improvement(ours, theirs).value == pytest.approx(fmean(expected))
    reverse = probability_of_improvement(theirs, ours).value
    assert reverse == pytest.approx(1 - fmean(expected))


def test_interval_of_the_improvement_equals_a_plain_bootstrap_up_to_its_noise() -> None:
    ours, theirs = [3.0, 5.0, 4.0, 9.0, 1.0], [2.0, 2.5, 6.0, 3.5]
    rng = random.Random(1)
    samples = sorted(
        plain_improvement(rng.choices(ours, k=5), rng.choices(theirs, k=4)) for _ in range(4000)
    )
    found = probability_of_improvement(ours, theirs, resamples=50_000)
    assert found.low == pytest.approx(samples[100], abs=0.06)
    assert found.high == pytest.approx(samples[-101], abs=0.06)


@pytest.mark.parametrize("statistic", [interquartile_mean, mean])
def test_intervals_cover_the_true_value_as_often_as_they_promise(statistic: Statistic) -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(300):
        found = aggregate(rng.normal(2.0, 1.0, (5, 5)), statistic, resamples=400)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 2.0 <= found.high
    # 25 scores: the bootstrap is slightly narrow; three standard errors are 0.04.
    assert 0.89 <= covered / 300 <= 0.99


def test_intervals_of_the_improvement_cover_the_true_value() -> None:
    rng = np.random.default_rng(6)
    covered = 0
    for _ in range(300):
        found = probability_of_improvement(rng.normal(size=10), rng.normal(size=10), resamples=400)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.5 <= found.high
    assert 0.90 <= covered / 300 <= 0.99


def test_a_curve_is_aggregated_point_by_point() -> None:
    curves = np.random.default_rng(2).normal(size=(6, 4)).cumsum(axis=1)
    found = aggregate_curve(curves)
    assert found.low is not None
    assert found.high is not None
    for point in range(4):
        single = aggregate(curves[:, point])
        assert found.value[point] == pytest.approx(single.value)
        assert found.low[point] == pytest.approx(single.low, abs=0.1)
        assert found.high[point] == pytest.approx(single.high, abs=0.1)
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()


def test_a_single_run_has_no_interval() -> None:
    assert aggregate([3.0]) == Aggregate(3.0, None, None, 1)
    assert probability_of_improvement([3.0], [1.0, 2.0]) == Aggregate(1.0, None, None, 1)
    curve = aggregate_curve([[1.0, 2.0]])
    assert curve.value.tolist() == [1.0, 2.0]
    assert curve.low is None
    assert curve.high is None


@pytest.mark.parametrize("scores", [[], [[]], [1.0, float("nan")], [float("inf")]])
def test_missing_or_infinite_scores_are_refused(scores: list[float]) -> None:
    with pytest.raises(BriskError, match="cores"):
        aggregate(scores)


def test_groups_with_different_tasks_are_refused() -> None:
    with pytest.raises(BriskError, match="same tasks; they have 1 and 2"):
        probability_of_improvement([1.0, 2.0], TWO_TASKS)
