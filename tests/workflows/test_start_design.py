"""The first orders of a search."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.orders.order_arrays import order_ids
from briskrl.orders.space import WorkflowSpace
from briskrl.workflows.candidates import Candidates, candidates
from briskrl.workflows.distances import distances
from briskrl.workflows.history import History, OrderResult
from briskrl.workflows.start_design import design_size, next_of_design

NAMED = {"middle": "c>b>a>d>e", "late": "e>d>c>b>a", "third": "b>a>c>d>e", "fourth": "a>b>e>d>c"}


def design(space: WorkflowSpace, count: int, seed: int = 0) -> list[int]:
    """Ids of the first orders, with every order pending until the end."""
    history = History(space.m, threshold=0.95)
    pool = Candidates(order_ids(space.orders), space.orders)
    for _ in range(count):
        eligible = history.eligible(pool.ids)
        rng = np.random.default_rng(seed)
        index = next_of_design(space, history, pool, eligible, rng)
        history.add_pending(space.from_id(int(pool.ids[index])))
    return [flow.id for flow in history.pending]


@pytest.mark.parametrize(
    ("names", "require", "size"),
    [("ab", [], 2), ("abc", [], 4), ("abc", ["a>b"], 3), ("abcde", [], 6), ("abcdefgh", [], 9)],
)
def test_size_of_the_design(names: str, require: list[str], size: int) -> None:
    assert design_size(WorkflowSpace(names, require=require)) == size


def test_well_known_orders_come_first_and_leave_two_places() -> None:
    space = WorkflowSpace("abcde", named=NAMED | {"fifth": "a>b>c>e>d"})
    known = [flow.id for flow in space.named.values()]
    found = design(space, 6)
    assert found[:4] == known[:4]
    assert found[4] not in known


def test_every_further_order_is_as_far_as_possible_from_those_before() -> None:
    space = WorkflowSpace("abcde")
    for seed in range(5):
        found = design(space, 8, seed)
        assert len(set(found)) == 8
        for count in range(1, 8):
            chosen = space.orders[found[:count]]
            nearest = distances(space.orders, chosen, "kendall").min(axis=1)
            assert nearest[found[count]] == pytest.approx(nearest.max())


def test_equal_distances_are_decided_by_the_seed() -> None:
    space = WorkflowSpace("abcde")
    assert design(space, 6, 1) == design(space, 6, 1)
    assert len({tuple(design(space, 6, seed)) for seed in range(8)}) == 8


def test_when_all_were_tried_the_least_visited_follows() -> None:
    space = WorkflowSpace("ab")
    history = History(2, threshold=0.95)
    pool = Candidates(order_ids(space.orders), space.orders)
    for number in (0, 0, 1):
        history.add(OrderResult(space.from_id(number), 1.0))
    rng = np.random.default_rng(0)
    assert next_of_design(space, history, pool, np.array([True, True]), rng) == 1


def test_candidates_of_a_large_space_are_evaluated_near_named_and_random_orders() -> None:
    space = WorkflowSpace(tuple("abcdefghi"), require=["a>b"], named={"known": "i>a>b>c>d>e>f>g>h"})
    evaluated = space.sample(np.random.default_rng(0), 3)
    found = candidates(space, evaluated, evaluated[:1], np.random.default_rng(1))
    assert (np.diff(found.ids) > 0).all()
    assert space.keeps_constraints(found.orders).all()
    wanted = {*order_ids(evaluated).tolist(), space.named["known"].id}
    assert wanted <= set(found.ids.tolist())
    # At most 8 * 8 neighbors, of which some break the constraint.
    assert 1990 < len(found.ids) < 2000 + 3 + 1 + 64
    again = candidates(space, evaluated, evaluated[:1], np.random.default_rng(1))
    assert (again.ids == found.ids).all()


def test_candidates_of_a_small_space_are_all_orders() -> None:
    space = WorkflowSpace("abcd", require=["d>a"])
    nothing = np.zeros((0, 4), np.int64)
    found = candidates(space, nothing, nothing, np.random.default_rng(0))
    assert (found.orders == space.orders).all()
