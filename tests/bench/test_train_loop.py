"""Learning curves, and means over them."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.bench.compare import mean_of
from briskrl.bench.train_loop import Arrival, Curve, learning_curve
from briskrl.training.config import TrainConfig

CURVE = Curve(
    steps=[100, 200, 300], scores=[1.0, 5.0, 9.0], wall_s=[2.0, 4.0, 8.0], cpu_s=[1.0, 2.0, 3.0]
)


def test_reaching_a_score_is_interpolated_between_two_points() -> None:
    assert CURVE.when(7.0) == Arrival(steps=250.0, wall_s=6.0, cpu_s=2.5)
    assert CURVE.when(5.0) == Arrival(200.0, 4.0, 2.0)


def test_a_score_reached_at_the_first_point_counts_as_reached_there() -> None:
    assert CURVE.when(0.5) == Arrival(100.0, 2.0, 1.0)


def test_a_score_above_all_points_is_never_reached() -> None:
    assert CURVE.when(9.5) is None


def test_a_curve_has_the_requested_points_and_updates() -> None:
    config = TrainConfig(
        num_envs=16,
        seed=3,
        algo_config={"learning_starts": 200, "net": [8], "train_steps_ratio": 0.125},
    )
    curve = learning_curve(config, steps=1200, points=3, games=8)
    assert curve.steps == [144, 544, 1200]
    assert curve.updates == (1200 - 200) // 8
    assert len(curve.scores) == 3
    assert min(curve.scores) >= 0
    for seconds in (curve.wall_s, curve.cpu_s):
        assert 0 < seconds[0] < seconds[1] < seconds[2]


def test_equal_seeds_give_equal_curves() -> None:
    config = TrainConfig(
        num_envs=16, engine="fused", algo_config={"learning_starts": 100, "net": [8]}
    )
    first, again = (learning_curve(config, steps=600, points=2, games=8) for _ in range(2))
    assert first.scores == again.scores


def test_a_mean_of_one_run_has_no_interval() -> None:
    alone = mean_of([4.0])
    assert alone is not None
    assert (alone.mean, alone.low, alone.high, alone.half_width) == (4.0, None, None, None)
    assert mean_of([]) is None


def test_intervals_of_means_cover_the_truth_at_the_stated_rate() -> None:
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(2000):
        found = mean_of((7 + 2 * rng.standard_normal(5)).tolist())
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered.append(found.low <= 7 <= found.high)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)
