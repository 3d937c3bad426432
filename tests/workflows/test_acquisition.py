"""Optimistic scores, and the choice among equals."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.workflows.acquisition import best_few, beta_at, first_best


@pytest.mark.parametrize(("selection", "beta"), [(1, 3.8956), (6, 4.7268), (100, 5.7962)])
def test_beta_of_the_regret_bound(selection: int, beta: float) -> None:
    assert beta_at("theory", selection, 120) == pytest.approx(beta, abs=5e-5)


def test_a_constant_beta_stays() -> None:
    assert beta_at(1.5, 99, 120) == 1.5


def test_equal_values_go_to_the_first() -> None:
    values = np.array([1.0, 3.0 - 2e-9, 3.0 + 1e-10, 3.0])
    assert first_best(values, np.ones(4, np.bool_)) == 1
    assert first_best(values - np.array([0, 1e-6, 0, 0]), np.ones(4, np.bool_)) == 2


def test_only_eligible_values_count() -> None:
    values = np.array([1.0, 5.0, 4.0, 4.0])
    eligible = np.array([True, False, True, True])
    assert first_best(values, eligible) == 2
    assert best_few(values, eligible, 5) == [2, 3, 0]
    assert eligible.tolist() == [True, False, True, True]
