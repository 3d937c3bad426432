"""A search can be saved at any moment and continues with the same proposals."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest

from briskrl import OrderResult, Searcher, SearcherConfig, WorkflowSpace
from briskrl.core.errors import InvalidStateError
from briskrl.core.types import JSON
from briskrl.workflows.config import Strategy

SPACE = WorkflowSpace(
    "abcde", require=["a>b"], named={"last first": "e>a>b>c>d", "given": (0, 1, 2, 4, 3)}
)
COUNTS = np.arange(25.0).reshape(5, 5)


def restored(searcher: Searcher) -> Searcher:
    return Searcher.from_state(json.loads(json.dumps(searcher.state(), allow_nan=False)))


def pickled(searcher: Searcher) -> Searcher:
    copy: Searcher = pickle.loads(pickle.dumps(searcher))
    return copy


def same(searcher: Searcher) -> Searcher:
    return searcher


def result(searcher: Searcher, number: int) -> OrderResult:
    """Scores with every kind of irregularity."""
    rng = np.random.default_rng(number)
    score, compliance = float(rng.standard_normal()), float(rng.uniform(0.8, 1))
    flow = searcher.space.from_id(number)
    if number % 7 == 0:
        return OrderResult(flow, math.nan, compliance=math.nan)
    if number % 5 == 0:
        return OrderResult(flow, score, failed=True)
    return OrderResult(
        flow,
        score,
        episodes=100 + number,
        score_se=0.1 if number % 2 else None,
        compliance=compliance if number % 3 else math.nan,
        contested_share=math.nan if number % 3 else 0.2,
        feasible=True if number % 4 == 0 else None,
        replaces_earlier=number % 2 == 0,
    )


@pytest.mark.parametrize("copied", [restored, pickled])
@pytest.mark.parametrize("strategy", ["gp-ucb", "thompson", "random", "exhaustive", "optuna"])
def test_a_search_that_is_saved_after_every_call_makes_the_same_proposals(
    strategy: Strategy, copied: object
) -> None:
    found = []
    for copy in (same, copied):
        searcher = Searcher(SPACE, SearcherConfig(strategy=strategy), seed=4, pair_counts=COUNTS)
        ids: list[int] = []
        for _ in range(8):
            ids += [choice.workflow.id for choice in searcher.ask(2)]
            searcher = copy(searcher)  # type: ignore[operator]
            # One of them stays pending for a round.
            for flow in searcher.pending[:2]:
                searcher.tell(result(searcher, flow.id))
                searcher = copy(searcher)  # type: ignore[operator]
        found.append((ids, searcher.state()))
    assert found[0] == found[1]


def test_large_spaces_are_restored() -> None:
    found = []
    for copy in (same, restored):
        searcher = Searcher(WorkflowSpace(tuple("abcdefghij")), seed=1)
        ids = []
        for _ in range(13):
            (choice,) = searcher.ask()
            ids.append(choice.workflow.id)
            score = -float(choice.workflow.ranks[3])
            searcher.tell(OrderResult(choice.workflow, score))
            searcher = copy(searcher)
        found.append(ids)
    assert found[0] == found[1]


def saved() -> dict[str, JSON]:
    searcher = Searcher(SPACE, pair_counts=COUNTS)
    for choice in searcher.ask(3)[:2]:
        searcher.tell(result(searcher, choice.workflow.id))
    return searcher.state()


def test_everything_is_restored() -> None:
    searcher = Searcher.from_state(saved())
    assert searcher.space.categories == SPACE.categories
    assert searcher.space.require == SPACE.require
    assert searcher.space.named == SPACE.named
    assert searcher.config == SearcherConfig()
    assert len(searcher.results) == 2
    assert len(searcher.pending) == 1
    assert searcher.state() == saved()


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"categories": ["a"]},
        {"categories": ["a", "b", "c", "d", "f>"]},
        {"require": ["a>b", "b>a"]},
        {"named": {"x": 120}},
        {"config": {"strategy": "luck"}},
        {"config": {"strategy": "list"}},
        {"seed": -1},
        {"pair_counts": [[1.0]]},
        {"asked": "3"},
        {"last": -1},
        {"pending": [10**9]},
        {"pending": [119]},
        {"results": [{"id": 3}]},
        {"results": None},
    ],
)
def test_states_that_no_search_has_saved_are_rejected(change: dict[str, JSON]) -> None:
    with pytest.raises(InvalidStateError):
        Searcher.from_state(saved() | change)


@pytest.mark.parametrize("state", [None, [], "x", 3, {}])
def test_other_values_are_rejected(state: JSON) -> None:
    with pytest.raises(InvalidStateError):
        Searcher.from_state(state)
