"""What a search knows, and which orders may be chosen next."""

from __future__ import annotations

import math

import numpy as np
import pytest

from briskrl import ConfigError, OrderResult, Workflow
from briskrl.workflows.history import History

NAMES = ("a", "b", "c")
IDS = np.arange(6)


def flow(number: int) -> Workflow:
    return Workflow.from_id(NAMES, number)


def history(**options: object) -> History:
    return History(3, threshold=0.9, **options)  # type: ignore[arg-type]


def test_observations_are_sorted_by_id_whatever_the_order_of_results() -> None:
    forward, backward = history(), history()
    results = [OrderResult(flow(i), float(i), episodes=i + 1, compliance=0.9) for i in (4, 0, 2)]
    for result in results:
        forward.add(result)
    for result in reversed(results):
        backward.add(result)
    for found in (forward.observations, backward.observations):
        assert found.ids.tolist() == [0, 2, 4]
        assert found.scores.tolist() == [0, 2, 4]
        assert found.episodes.tolist() == [1, 3, 5]
        assert found.orders.tolist() == [[0, 1, 2], [1, 0, 2], [2, 0, 1]]


def test_repeated_measurements_are_averaged_over_all_episodes() -> None:
    known = history()
    known.add(OrderResult(flow(1), 1.0, episodes=100, compliance=1.0, score_se=0.3))
    known.add(OrderResult(flow(1), 4.0, episodes=200, compliance=0.7, score_se=0.2))
    seen = known.observations
    assert seen.scores.tolist() == [3.0]
    assert seen.episodes.tolist() == [300]
    assert seen.compliance.tolist() == pytest.approx([0.8])
    assert seen.score_se.tolist() == pytest.approx([math.hypot(30, 40) / 300])
    assert seen.feasible.tolist() == [False]


def test_a_result_after_further_training_replaces_earlier_ones() -> None:
    known = history()
    for score, replaces in ((1.0, False), (5.0, True), (7.0, False)):
        known.add(OrderResult(flow(1), score, replaces_earlier=replaces))
    assert known.observations.scores.tolist() == [6.0]
    assert known.visits(1) == 3


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_is_a_failure(score: float) -> None:
    known = history()
    known.add(OrderResult(flow(1), score))
    known.add(OrderResult(flow(2), 1.0, failed=True))
    assert len(known.observations) == 0
    assert known.tried() == {1, 2}
    assert known.open_ids(IDS).all()
    known.add(OrderResult(flow(1), score))
    assert IDS[~known.open_ids(IDS)].tolist() == [1]


def test_a_failure_keeps_an_earlier_score() -> None:
    known = history()
    known.add(OrderResult(flow(1), 2.0))
    known.add(OrderResult(flow(1), math.nan))
    assert known.observations.scores.tolist() == [2.0]


def test_compliance_without_decisions_counts_as_none() -> None:
    known = history()
    known.add(OrderResult(flow(3), 2.0, compliance=math.nan))
    assert known.observations.compliance.tolist() == [0.0]
    assert known.observations.feasible.tolist() == [False]


def test_feasibility_follows_the_threshold_unless_it_is_given() -> None:
    known = history()
    for number, compliance, feasible in ((0, 0.9, None), (1, 0.89, None), (2, 0.5, True)):
        known.add(OrderResult(flow(number), 0.0, compliance=compliance, feasible=feasible))
    assert known.observations.feasible.tolist() == [True, False, True]


def test_orders_leave_after_the_most_visits() -> None:
    known = history(max_visits=2)
    known.add(OrderResult(flow(4), 1.0))
    assert known.open_ids(IDS).all()
    known.add(OrderResult(flow(4), 1.0))
    assert IDS[~known.open_ids(IDS)].tolist() == [4]


def test_infeasible_orders_leave_if_they_are_barred() -> None:
    known = history(bar_infeasible=True)
    known.add(OrderResult(flow(4), 1.0, compliance=0.1))
    assert IDS[~known.open_ids(IDS)].tolist() == [4]


def test_pending_orders_and_the_last_one_may_not_be_chosen() -> None:
    known = history()
    known.add_pending(flow(2))
    known.add_pending(flow(3))
    known.add(OrderResult(flow(3), 1.0))
    assert IDS[known.eligible(IDS)].tolist() == [0, 1, 4, 5]
    known.drop_pending(flow(2))
    assert IDS[known.eligible(IDS)].tolist() == [0, 1, 2, 4, 5]


def test_the_last_order_may_be_chosen_if_there_is_no_other() -> None:
    known = history()
    known.add_pending(flow(0))
    known.add(OrderResult(flow(0), 1.0))
    assert known.eligible(np.array([0])).tolist() == [True]
    assert known.eligible(np.array([0, 1])).tolist() == [False, True]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"episodes": 0}, "0 episodes"),
        ({"score_se": -1.0}, "standard error -1.0"),
        ({"score_se": math.nan}, "standard error nan"),
        ({"compliance": 1.2}, "compliance of a result is 1.2"),
        ({"contested_share": -0.1}, "contested_share of a result is -0.1"),
    ],
)
def test_impossible_numbers_are_rejected_and_change_nothing(
    numbers: dict[str, float], message: str
) -> None:
    known = history()
    known.add_pending(flow(0))
    with pytest.raises(ConfigError, match=message):
        known.add(OrderResult(flow(0), 1.0, **numbers))  # type: ignore[arg-type]
    assert known.pending == [flow(0)]
    assert not known.results
