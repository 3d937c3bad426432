"""Orders that are not obeyed: the four rules."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import numpy as np
import pytest

from benchmarks.order_search import SPACE, THRESHOLD, landscape, search
from briskrl import OrderResult, Searcher, SearcherConfig, WorkflowSpace
from briskrl.workflows.config import InfeasibleRule
from briskrl.workflows.feasibility import modeled_observations
from briskrl.workflows.history import History
from tests.workflows.test_searcher import drive

RULES: tuple[InfeasibleRule, ...] = get_args(InfeasibleRule)


@pytest.mark.parametrize("rule", RULES)
def test_a_search_among_infeasible_orders_ends_and_does_not_repeat_itself(
    rule: InfeasibleRule,
) -> None:
    space = WorkflowSpace("abcd")
    scores = np.random.default_rng(0).standard_normal(24)
    searcher = Searcher(space, SearcherConfig(infeasible=rule))
    ids = drive(
        searcher,
        lambda n: OrderResult(space.from_id(n), float(scores[n]), compliance=0.3 + n / 100),
    )
    assert searcher.stop_reason == "exhausted"
    assert all(a != b for a, b in pairwise(ids[:-3]))
    assert len(ids) == (24 if rule == "skip" else 72)
    best = searcher.recommend()
    assert best is not None
    assert not best.feasible
    if rule == "ignore":
        assert best.workflow.id == scores.argmax()
    else:
        # The most compliant one.
        assert best.workflow.id == 23


def observed() -> History:
    space = WorkflowSpace("abc")
    history = History(3, threshold=0.8)
    for number, score, compliance in ((0, 4.0, 1.0), (1, 9.0, 0.4), (2, -1.0, 0.8)):
        history.add(OrderResult(space.from_id(number), score, compliance=compliance))
    return history


def test_penalised_scores_fall_with_the_shortfall_and_the_range() -> None:
    seen = modeled_observations(observed().observations, "penalise", 0.8)
    # The range is 10, and the compliance of the second one is half the threshold.
    assert seen.scores.tolist() == [4.0, 4.0, -1.0]


def test_the_penalty_is_at_least_as_large_as_for_a_range_of_one() -> None:
    history = History(3, threshold=0.8)
    history.add(OrderResult(WorkflowSpace("abc").from_id(1), 9.0, compliance=0.4))
    assert modeled_observations(history.observations, "penalise", 0.8).scores.tolist() == [8.5]


def test_skipped_orders_are_no_observations() -> None:
    assert modeled_observations(observed().observations, "skip", 0.8).ids.tolist() == [0, 2]


@pytest.mark.parametrize("rule", ["model", "ignore"])
def test_other_rules_keep_all_scores(rule: InfeasibleRule) -> None:
    assert modeled_observations(observed().observations, rule, 0.8).scores.tolist() == [4, 9, -1]


def test_the_model_proposes_admissible_orders_while_there_are_any() -> None:
    searcher = search(landscape(1, constrained=True), SearcherConfig(), seed=1, evaluations=20)
    model = searcher.model
    assert model is not None
    assert model.compliance is not None
    posterior = model.compliance.predict(SPACE.orders)
    expected = posterior.mean + posterior.std >= THRESHOLD - 0.02
    assert 0 < expected.sum() < 120
    optimistic = model.optimistic_compliance(SPACE.orders)
    assert (model.is_admissible(optimistic) == expected).all()
    fresh = Searcher.from_state(searcher.state() | {"config": {}})
    (choice,) = fresh.ask()
    assert expected[choice.workflow.id]
    assert choice.model is not None
    assert choice.model.chosen.admissible


def test_without_admissible_orders_the_most_compliant_one_is_proposed() -> None:
    searcher = Searcher(SPACE)
    for number in range(0, 120, 6):
        compliance = 0.1 + 0.001 * number
        searcher.tell(OrderResult(SPACE.from_id(number), -float(number), compliance=compliance))
    model = searcher.model
    assert model is not None
    optimistic = model.optimistic_compliance(SPACE.orders)
    assert not model.is_admissible(optimistic).any()
    assert searcher.ask()[0].workflow.id == optimistic.argmax()


def test_full_compliance_everywhere_needs_no_second_surrogate() -> None:
    searcher = search(landscape(0), SearcherConfig(), seed=0, evaluations=10)
    assert searcher.model is not None
    assert searcher.model.compliance is None
