"""Ratios of paired turns."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.bench.compare import Pair, cost_ratio, standard_error


def test_all_seconds_of_both_sides_count() -> None:
    assert cost_ratio([Pair(1.0, 2.0), Pair(5.0, 1.0)]) == 2.0


def test_without_turns_there_is_no_ratio() -> None:
    assert cost_ratio([]) is None
    assert standard_error([Pair(1.0, 2.0)]) is None


def test_pairs_of_one_ratio_have_no_error() -> None:
    pairs = [Pair(1.1 * cost, cost) for cost in (1.0, 3.0, 0.2)]
    assert cost_ratio(pairs) == pytest.approx(1.1)
    assert standard_error(pairs) == pytest.approx(0, abs=1e-12)


def test_the_error_tells_how_far_ratios_scatter() -> None:
    rng = np.random.default_rng(5)
    ratios, errors = [], []
    for _ in range(400):
        pairs = [Pair(*costs) for costs in 1 + 0.1 * rng.standard_normal((50, 2))]
        ratios.append(cost_ratio(pairs))
        errors.append(standard_error(pairs))
    assert np.mean(errors) == pytest.approx(np.std(ratios), rel=0.15)
