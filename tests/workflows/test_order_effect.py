"""Whether the order matters."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.order_search import SPACE, landscape
from briskrl import OrderResult, Searcher, WorkflowSpace

SEEDS = 25


def searched(
    seed: int, *, signal: float, contested: float | None = None, **known: float
) -> Searcher:
    """A search of 30 evaluations with noise of standard deviation 1."""
    rng = np.random.default_rng([seed, 3])
    scores = landscape(seed).scores * signal
    searcher = Searcher(SPACE, seed=seed)
    for _ in range(30):
        (choice,) = searcher.ask()
        score = float(scores[choice.workflow.id] + rng.standard_normal())
        searcher.tell(
            OrderResult(
                choice.workflow,
                score,
                contested_share=contested,
                **known,  # type: ignore[arg-type]
            )
        )
    return searcher


def test_noise_alone_is_not_taken_for_an_effect() -> None:
    effects = [searched(seed, signal=0.0, score_se=1.0).order_effect() for seed in range(SEEDS)]
    # 2 % of such searches find one.
    assert sum(effect.matters is True for effect in effects) <= 2
    # The spread of the expected scores alone would have been taken for one in every search.
    assert all(effect.spread > effect.standard_error for effect in effects)


def test_an_effect_that_is_larger_than_the_noise_is_found() -> None:
    effects = [searched(seed, signal=4.0).order_effect() for seed in range(SEEDS)]
    assert sum(effect.matters is True for effect in effects) >= SEEDS - 1
    assert effects[0].reason.startswith("The order matters: expected scores")


def test_an_order_that_was_hardly_tested_does_not_matter() -> None:
    searcher = searched(0, signal=4.0, contested=0.01)
    effect = searcher.order_effect()
    assert effect.matters is False
    assert "1.0% of the decisions had a choice between categories" in effect.reason
    assert searcher.order_effect(min_contested=0.005).matters is True


def test_a_spread_below_the_standard_error_does_not_matter() -> None:
    effect = searched(0, signal=4.0, score_se=1000.0).order_effect()
    assert effect.matters is False
    assert effect.standard_error == pytest.approx(1000 / np.sqrt(3), rel=0.75)
    assert "does not matter measurably" in effect.reason


def test_equal_scores_do_not_matter() -> None:
    searcher = Searcher(SPACE)
    for number in range(0, 120, 10):
        searcher.tell(OrderResult(SPACE.from_id(number), 5.0))
    assert searcher.order_effect().matters is False


def test_uncontested_pairs_are_named() -> None:
    space = WorkflowSpace("abc")
    counts = [[0, 4, 0], [0, 0, 7], [9, 9, 0]]
    searcher = Searcher(space, pair_counts=counts)
    for number in range(6):
        searcher.tell(OrderResult(space.from_id(number), float(number), contested_share=0.5))
    effect = searcher.order_effect()
    assert effect.uncontested == (("a", "c"),)
    assert effect.reason.endswith("Never in competition: a and c.")


def test_few_results_give_no_verdict() -> None:
    searcher = Searcher(SPACE)
    searcher.tell(OrderResult(SPACE.from_id(3), 5.0))
    effect = searcher.order_effect()
    assert effect.matters is None
    assert "too few results" in effect.reason
