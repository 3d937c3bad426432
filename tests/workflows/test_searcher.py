"""The searcher: proposals, results, ends, recommendation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.order_search import SPACE, landscape, search
from briskrl import ConfigError, OrderResult, Searcher, SearcherConfig, WorkflowSpace
from briskrl.workflows import feasibility as feasibility_module
from briskrl.workflows.config import Strategy
from briskrl.workflows.surrogate import SurrogateError

STRATEGIES: tuple[Strategy, ...] = ("gp-ucb", "thompson", "random", "exhaustive", "optuna")
Score = Callable[[int], OrderResult]


def drive(searcher: Searcher, result: Score, rounds: int = 10_000, together: int = 1) -> list[int]:
    """Evaluate until the search ends; ids in the order of the proposals."""
    ids: list[int] = []
    for _ in range(rounds):
        choices = searcher.ask(together)
        if not choices:
            break
        for choice in choices:
            ids.append(choice.workflow.id)
            searcher.tell(result(choice.workflow.id))
    return ids


def scored(space: WorkflowSpace, seed: int = 0, **numbers: float) -> Score:
    """Random scores by id."""
    scores = np.random.default_rng(seed).standard_normal(5040)
    return lambda number: OrderResult(
        space.from_id(number),
        float(scores[number % 5040]),
        **numbers,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_seed_gives_the_same_proposals(strategy: Strategy) -> None:
    config = SearcherConfig(strategy=strategy, max_workflows=14)
    first, second, other = (
        drive(Searcher(SPACE, config, seed=seed), scored(SPACE)) for seed in (1, 1, 2)
    )
    assert first == second
    assert len(first) == 14
    assert first != other or strategy == "exhaustive"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_ends_when_all_orders_are_used_up(strategy: Strategy) -> None:
    space = WorkflowSpace("abc")
    searcher = Searcher(space, SearcherConfig(strategy=strategy, max_visits=2))
    ids = drive(searcher, scored(space))
    assert set(ids) == set(range(6))
    assert len(ids) == (12 if strategy in ("gp-ucb", "thompson") else 6)
    assert searcher.stop_reason == "exhausted"
    assert searcher.ask() == []


@pytest.mark.parametrize("strategy", ["random", "exhaustive", "optuna"])
def test_strategies_without_revisits_propose_each_order_once(strategy: Strategy) -> None:
    searcher = Searcher(SPACE, SearcherConfig(strategy=strategy, max_workflows=20))
    ids = drive(searcher, scored(SPACE))
    assert len(set(ids)) == 20
    assert strategy != "exhaustive" or ids == list(range(20))


def test_random_proposals_are_uniform_over_seeds() -> None:
    space = WorkflowSpace("abc")
    config = SearcherConfig(strategy="random")
    first = [Searcher(space, config, seed=s).ask()[0].workflow.id for s in range(600)]
    counts = np.bincount(first, minlength=6)
    # Chi squared with 5 degrees of freedom; 20.5 is its 99.9 % quantile.
    assert ((counts - 100) ** 2 / 100).sum() < 20.5


def test_a_list_is_evaluated_in_its_order() -> None:
    config = SearcherConfig(strategy="list", workflows=("c>b>a", "1", "a>b>c"))
    searcher = Searcher(WorkflowSpace("abc"), config)
    assert drive(searcher, scored(searcher.space)) == [5, 1, 0]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (SearcherConfig(strategy="list"), "needs workflows"),
        (SearcherConfig(workflows=("a>b>c",)), "for strategy = list only"),
        (SearcherConfig(strategy="list", workflows=("a>b",)), "lacks category 'c'"),
        (SearcherConfig(kernel="weighted"), "needs counts of pairs"),
    ],
)
def test_settings_that_do_not_fit_together_are_rejected(
    config: SearcherConfig, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Searcher(WorkflowSpace("abc"), config)


def test_the_surrogate_chooses_after_the_design() -> None:
    searcher = Searcher(SPACE, seed=3)
    phases = []
    for _ in range(9):
        (choice,) = searcher.ask()
        phases.append(choice.phase)
        searcher.tell(scored(SPACE)(choice.workflow.id))
    assert phases == ["design"] * 6 + ["model"] * 3


def test_a_choice_explains_itself() -> None:
    searcher = Searcher(SPACE, SearcherConfig(beta=1.5))
    ids = drive(searcher, scored(SPACE), rounds=8)
    expected = searcher.posterior()
    (choice,) = searcher.ask()
    model = choice.model
    assert model is not None
    assert expected is not None
    assert model.chosen.id == choice.workflow.id == model.top[0].id
    assert model.chosen.acquisition == model.chosen.mean + 1.5 * model.chosen.std
    assert [c.acquisition for c in model.top] == sorted(
        (c.acquisition for c in model.top), reverse=True
    )
    assert (model.observations, model.pending, model.beta) == (len(set(ids)), 0, 1.5)
    assert model.chosen.mean == expected.posterior.mean[choice.workflow.id]


def test_pending_orders_are_not_proposed_again_and_shrink_deviations() -> None:
    searcher = Searcher(SPACE)
    drive(searcher, scored(SPACE), rounds=8)
    choices = searcher.ask(20)
    ids = [choice.workflow.id for choice in choices]
    assert len(set(ids)) == 20
    assert [flow.id for flow in searcher.pending] == ids
    assert [choice.model.pending for choice in choices if choice.model] == list(range(20))
    first, later = choices[0].model, choices[-1].model
    assert first is not None
    assert later is not None
    assert later.chosen.std < first.chosen.std


def test_when_everything_is_pending_the_search_waits_instead_of_ending() -> None:
    space = WorkflowSpace("abc")
    searcher = Searcher(space, SearcherConfig(max_visits=1))
    choices = searcher.ask(10)
    assert len(choices) == 6
    assert searcher.ask() == []
    assert searcher.stop_reason is None
    for choice in choices:
        searcher.tell(scored(space)(choice.workflow.id))
    assert searcher.stop_reason == "exhausted"


def test_proposals_do_not_depend_on_the_order_in_which_a_batch_ends() -> None:
    searchers = [Searcher(SPACE, seed=1) for _ in range(2)]
    result = scored(SPACE)
    for _ in range(5):
        batches = [[c.workflow.id for c in searcher.ask(4)] for searcher in searchers]
        assert batches[0] == batches[1]
        for number in batches[0]:
            searchers[0].tell(result(number))
        for number in reversed(batches[1]):
            searchers[1].tell(result(number))


def test_a_withdrawn_order_may_be_proposed_again() -> None:
    searcher = Searcher(WorkflowSpace("ab"), SearcherConfig(strategy="exhaustive"))
    (choice,) = searcher.ask()
    searcher.withdraw(choice.workflow)
    assert searcher.pending == ()
    assert searcher.ask()[0].workflow == choice.workflow
    with pytest.raises(ConfigError, match="is not pending"):
        searcher.withdraw(searcher.space.from_id(1))


def test_known_results_can_be_given_without_being_asked_for() -> None:
    searcher = Searcher(SPACE)
    for number in range(0, 120, 12):
        searcher.tell(scored(SPACE)(number))
    assert searcher.ask()[0].phase == "model"


def test_orders_outside_the_space_are_rejected() -> None:
    searcher = Searcher(WorkflowSpace("abc", require=["a>b"]))
    with pytest.raises(ConfigError, match="not in the space"):
        searcher.tell(OrderResult(WorkflowSpace("abc").parse("b>a>c"), 1.0))


def test_equal_scores_everywhere_rotate_through_the_orders() -> None:
    space = WorkflowSpace("abcd")
    ids = drive(Searcher(space), lambda n: OrderResult(space.from_id(n), -7.0), rounds=24)
    # Deviations of orders that were evaluated are smaller, so nothing is repeated before the end.
    assert len(set(ids)) == 24


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_failed_orders_are_tried_twice_and_never_enter_the_surrogate(score: float) -> None:
    space = WorkflowSpace("abc")
    searcher = Searcher(space, SearcherConfig(max_visits=1))
    bad = {1, 4}
    result = scored(space)
    ids = drive(searcher, lambda n: OrderResult(space.from_id(n), score) if n in bad else result(n))
    assert sorted(ids) == [0, 1, 1, 2, 3, 4, 4, 5]
    assert {row.workflow.id for row in searcher.ranking()} == {0, 2, 3, 5}


def test_when_everything_fails_the_search_ends_without_a_recommendation() -> None:
    space = WorkflowSpace("abc")
    searcher = Searcher(space)
    ids = drive(searcher, lambda n: OrderResult(space.from_id(n), math.nan))
    assert len(ids) == 12
    assert searcher.recommend() is None
    assert searcher.order_effect().matters is None


def test_a_single_order_is_evaluated_once_without_a_surrogate() -> None:
    space = WorkflowSpace("abc", require=["c>b>a"])
    searcher = Searcher(space)
    assert drive(searcher, scored(space)) == [5]
    assert searcher.model is None
    best = searcher.recommend()
    assert best is not None
    assert best.std is None


def test_two_orders_are_compared_without_a_surrogate() -> None:
    space = WorkflowSpace("ab")
    searcher = Searcher(space)
    ids = drive(searcher, lambda n: OrderResult(space.from_id(n), float(n)))
    assert sorted(ids) == [0, 0, 0, 1, 1, 1]
    assert all(a != b for a, b in pairwise(ids))
    best = searcher.recommend()
    assert best is not None
    assert best.workflow.id == 1


@pytest.mark.parametrize("m", [8, 12])
def test_large_spaces_are_searched_without_enumeration(m: int) -> None:
    space = WorkflowSpace(tuple("abcdefghijkl"[:m]), require=["a>b"])

    def inversions(number: int) -> OrderResult:
        flow = space.from_id(number)
        pairs = [(i, j) for i in range(m) for j in range(i)]
        return OrderResult(flow, -float(sum(flow.order[i] < flow.order[j] for i, j in pairs)))

    found = {}
    for strategy in ("gp-ucb", "random"):
        searcher = Searcher(space, SearcherConfig(strategy=strategy, max_workflows=m + 16))
        ids = drive(searcher, inversions, together=2)
        assert len(ids) == m + 16
        assert all(space.from_id(number) in space for number in ids)
        best = searcher.recommend()
        assert best is not None
        found[strategy] = best.score
    # The best order has the score 0.
    assert found["gp-ucb"] > found["random"]


@pytest.mark.parametrize("strategy", ["exhaustive", "thompson"])
def test_other_strategies_work_in_large_spaces(strategy: Strategy) -> None:
    space = WorkflowSpace(tuple("abcdefghijkl"))
    searcher = Searcher(space, SearcherConfig(strategy=strategy, max_workflows=16))
    assert len(drive(searcher, scored(space))) == 16


def test_the_search_ends_after_the_most_workflows_pending_ones_included() -> None:
    searcher = Searcher(SPACE, SearcherConfig(max_workflows=7))
    assert len(searcher.ask(10)) == 7
    assert searcher.stop_reason == "max-workflows"


def test_the_tolerance_ends_a_search_that_cannot_improve() -> None:
    world = landscape(0)
    exact = SearcherConfig(max_visits=1, tolerance=0.5)
    searcher = Searcher(SPACE, exact)
    ids = drive(searcher, lambda n: OrderResult(SPACE.from_id(n), float(world.scores[n])))
    assert searcher.stop_reason == "tolerance"
    assert 6 < len(ids) < 120
    best = searcher.recommend()
    assert best is not None
    assert world.regret(best.workflow) <= 0.5
    patient = Searcher(SPACE, replace(exact, tolerance=0.0))
    more = drive(patient, lambda n: OrderResult(SPACE.from_id(n), float(world.scores[n])))
    assert len(more) > len(ids)


def test_without_a_surrogate_orders_are_random_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise SurrogateError("No surrogate fits the scores.")

    monkeypatch.setattr(feasibility_module.OrderSurrogate, "fit", fail)
    searcher = Searcher(SPACE)
    drive(searcher, scored(SPACE), rounds=6)
    (choice,) = searcher.ask()
    assert choice.phase == "random"
    assert "No surrogate fits the scores. The next order is chosen at random." in caplog.text
    best = searcher.recommend()
    assert best is not None
    assert best.score == max(result.score for result in searcher.results)


@pytest.mark.parametrize("factor", [100.0, 1e-6])
@pytest.mark.parametrize("strategy", ["gp-ucb", "thompson"])
def test_units_of_the_scores_leave_the_proposals_unchanged(
    strategy: Strategy, factor: float
) -> None:
    config = SearcherConfig(strategy=strategy)
    for seed in range(2):
        world = landscape(seed)
        plain = search(world, config, seed=seed)
        other = search(world, config, seed=seed, measured=lambda score: factor * score - 500)
        ids = [[result.workflow.id for result in s.results] for s in (plain, other)]
        assert ids[0] == ids[1]
