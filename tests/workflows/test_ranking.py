"""Evaluated orders from best to worst."""

from __future__ import annotations

import numpy as np

from briskrl import OrderResult, Searcher, SearcherConfig, WorkflowSpace

SPACE = WorkflowSpace("abcd")


def told(*rows: tuple[int, float, int, float], **config: object) -> Searcher:
    """A search with results: id, score, episodes, compliance."""
    searcher = Searcher(SPACE, SearcherConfig(**config))  # type: ignore[arg-type]
    for number, score, episodes, compliance in rows:
        flow = SPACE.from_id(number)
        searcher.tell(OrderResult(flow, score, episodes=episodes, compliance=compliance))
    return searcher


def ranked(searcher: Searcher) -> list[int]:
    return [row.workflow.id for row in searcher.ranking()]


def test_without_a_model_the_raw_score_decides() -> None:
    assert ranked(told((3, 1.0, 1, 1.0), (9, 2.0, 1, 1.0))) == [9, 3]


def test_equal_means_are_decided_by_episodes_and_then_by_id() -> None:
    rows = [(number, 5.0, episodes, 1.0) for number, episodes in ((8, 10), (2, 10), (5, 20))]
    assert ranked(told(*rows[:2])) == [2, 8]
    assert ranked(told(*rows)) == [5, 2, 8]


def test_infeasible_orders_come_last_by_compliance() -> None:
    searcher = told((0, 9.0, 1, 0.3), (1, 1.0, 1, 0.96), (2, 9.0, 1, 0.9), (3, 2.0, 1, 0.99))
    assert ranked(searcher) == [3, 1, 2, 0]
    best = searcher.recommend()
    assert best is not None
    assert best.feasible


def test_without_feasible_orders_the_most_compliant_one_is_recommended_as_infeasible() -> None:
    best = told((0, 9.0, 1, 0.3), (1, 1.0, 1, 0.5)).recommend()
    assert best is not None
    assert (best.workflow.id, best.feasible) == (1, False)


def test_compliance_plays_no_part_if_it_is_ignored() -> None:
    best = told((0, 9.0, 1, 0.3), (1, 1.0, 1, 1.0), infeasible="ignore").recommend()
    assert best is not None
    assert (best.workflow.id, best.feasible) == (0, False)


def test_the_expected_score_decides_where_there_is_a_model() -> None:
    rng = np.random.default_rng(0)
    rows = [(number, float(rng.standard_normal()), 100, 1.0) for number in range(0, 24, 2)]
    searcher = told(*rows)
    means = [row.mean for row in searcher.ranking()]
    assert means == sorted(means, reverse=True)
    model = searcher.model
    assert model is not None
    for row in searcher.ranking():
        posterior = model.predict(np.array([row.workflow.order]))
        np.testing.assert_allclose([row.mean, row.std], [posterior.mean[0], posterior.std[0]])
        assert row.score == {n: s for n, s, *_ in rows}[row.workflow.id]
        assert row.visits == 1
