"""When runs reached a score, against data made by hand and plain loops."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from briskrl.cluster.arrival import (
    Arrival,
    aggregate_arrivals,
    default_window,
    steps_to_score,
    training_curve,
)

SCORES = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=40)
TIMES = st.lists(st.none() | st.integers(1, 1000).map(float), min_size=1, max_size=8)


def steps_of(values: list[float]) -> np.ndarray:
    return 10.0 * np.arange(1, len(values) + 1)


def plain_steps_to_score(values: list[float], score: float, window: int) -> float | None:
    for last in range(window, len(values) + 1):
        if fmean(values[last - window : last]) >= score:
            return 10.0 * last
    return None


def test_a_score_is_reached_by_the_mean_of_the_window_and_not_by_single_episodes() -> None:
    values = np.array([0.0, 9.0, 0.0, 4.0, 6.0, 8.0, 0.0])
    steps = steps_of(list(values))
    assert training_curve(values, 2) == pytest.approx([4.5, 4.5, 2.0, 5.0, 7.0, 4.0])
    assert steps_to_score(steps, values, 5.0, window=2) == 50
    assert steps_to_score(steps, values, 7.0, window=2) == 60
    assert steps_to_score(steps, values, 7.1, window=2) is None
    assert steps_to_score(steps, values, 9.0, window=1) == 20


def test_nothing_is_reached_before_the_first_window_is_full() -> None:
    values = np.array([9.0, 9.0, 9.0])
    assert steps_to_score(steps_of([0] * 3), values, 1.0, window=3) == 30
    assert steps_to_score(steps_of([0] * 3), values, 1.0, window=4) is None
    assert training_curve(values, 4).shape == (0,)


@pytest.mark.parametrize("value", [0.1, 500.0, -1e6 / 3])
def test_a_curve_at_exactly_the_score_has_reached_it(value: float) -> None:
    values = np.concatenate((np.full(1000, value - 1), np.full(200_000, value)))
    found = steps_to_score(np.arange(len(values)), values, value, window=100)
    assert found == 1099


@given(SCORES, st.integers(-5, 5), st.integers(1, 6))
def test_steps_to_a_score_equal_a_plain_loop(
    values: list[float], score: float, window: int
) -> None:
    found = steps_to_score(steps_of(values), np.array(values), score, window=window)
    assert found == plain_steps_to_score(values, score, window)


@given(SCORES, SCORES, st.integers(-5, 5), st.integers(1, 6))
def test_later_episodes_do_not_change_when_a_score_was_reached(
    values: list[float], later: list[float], score: float, window: int
) -> None:
    found = steps_to_score(steps_of(values), np.array(values), score, window=window)
    longer = values + later
    again = steps_to_score(steps_of(longer), np.array(longer), score, window=window)
    assert found is None or found == again


@given(SCORES, st.integers(1, 6))
def test_a_higher_score_is_never_reached_earlier(values: list[float], window: int) -> None:
    found = [
        steps_to_score(steps_of(values), np.array(values), score, window=window)
        for score in range(-5, 7)
    ]
    times = [math.inf if time is None else time for time in found]
    assert times == sorted(times)
    assert times[-1] == math.inf


def test_the_window_is_a_tenth_of_the_shortest_run_and_at_most_a_hundred() -> None:
    assert default_window([5000, 9000]) == 100
    assert default_window([5000, 250]) == 25
    assert default_window([3]) == 1


def test_runs_that_have_not_reached_a_score_count_as_infinite() -> None:
    assert aggregate_arrivals([10.0]) == Arrival(10.0, None, None, 1, 1)
    assert aggregate_arrivals([None]) == Arrival(math.inf, None, None, 0, 1)
    assert aggregate_arrivals([10.0, 10.0]) == Arrival(10.0, 10.0, 10.0, 2, 2)
    assert aggregate_arrivals([None, None]) == Arrival(math.inf, math.inf, math.inf, 0, 2)
    # A resample holds the failure at least twice of three times with chance 7/27.
    found = aggregate_arrivals([10.0, 20.0, None])
    assert found == Arrival(20.0, 10.0, math.inf, 2, 3)
    assert aggregate_arrivals([10.0, None]).median == math.inf


def test_the_interval_of_the_median_covers_it_as_often_as_it_promises() -> None:
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(300):
        # Half of all runs take less than 1; runs that would take more than 2 have not arrived.
        times = rng.exponential(1 / math.log(2), 15)
        found = aggregate_arrivals([None if time > 2 else float(time) for time in times])
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 1.0 <= found.high
    assert 0.90 <= covered / 300 <= 1.0


@given(TIMES)
def test_intervals_hold_the_median_and_losing_a_run_never_makes_it_smaller(
    times: list[float | None],
) -> None:
    found = aggregate_arrivals(times)
    assert found.reached == sum(time is not None for time in times)
    if found.low is not None and found.high is not None:
        assert found.low <= found.median <= found.high
    assert aggregate_arrivals([*times[1:], None]).median >= found.median
