"""How close the search comes to the best of 120 orders.

The studies with few landscapes are part of the default suite. Those with 200 are marked slow:
`pytest -m slow tests/workflows/test_search_quality.py`; `python benchmarks/order_search.py` prints
the figures.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from benchmarks import order_search as study
from briskrl import SearcherConfig
from briskrl.workflows.config import Strategy

FEW = 40
MANY = 200


@cache
def mean_regret(strategy: Strategy, seeds: int, together: int = 1) -> float:
    config = SearcherConfig(strategy=strategy)
    return float(study.regrets(config, seeds=seeds, together=together).mean())


def check_regret(seeds: int) -> None:
    assert mean_regret("gp-ucb", seeds) < 0.10
    assert mean_regret("gp-ucb", seeds) < mean_regret("random", seeds) / 2


def check_four_at_a_time(seeds: int) -> None:
    assert mean_regret("gp-ucb", seeds, 4) < mean_regret("gp-ucb", seeds) + 0.1


def check_feasible(seeds: int) -> None:
    found = study.regrets(SearcherConfig(), seeds=seeds, constrained=True)
    # Orders that are not feasible have no regret.
    assert np.isfinite(found).all()
    assert found.mean() < 0.15


def test_the_regret_is_small_and_less_than_half_of_random_search() -> None:
    check_regret(FEW)


def test_four_evaluations_at_a_time_cost_little() -> None:
    check_four_at_a_time(FEW)


def test_a_good_order_is_found_where_a_sixth_is_feasible() -> None:
    check_feasible(FEW)


def test_landscapes_have_unit_spread_and_a_sixth_of_feasible_orders() -> None:
    world = study.landscape(3, constrained=True)
    assert world.scores.std() == pytest.approx(1)
    assert world.feasible.sum() == 20
    assert (
        world.regret(study.SPACE.from_id(int(np.where(world.feasible, world.scores, -9).argmax())))
        == 0
    )


@pytest.mark.slow
def test_the_regret_is_small_on_many_landscapes() -> None:
    check_regret(MANY)


@pytest.mark.slow
def test_four_evaluations_at_a_time_cost_little_on_many_landscapes() -> None:
    check_four_at_a_time(MANY)


@pytest.mark.slow
def test_a_good_order_is_found_on_many_landscapes_where_a_sixth_is_feasible() -> None:
    check_feasible(MANY)


@pytest.mark.slow
def test_results_that_replace_earlier_ones_are_searched_well() -> None:
    found = study.regrets(SearcherConfig(), seeds=MANY, replace_earlier=True)
    assert found.mean() < mean_regret("random", MANY) / 2
