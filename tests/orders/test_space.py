"""Spaces of orders: enumeration, constraints, names, drawing."""

from __future__ import annotations

from itertools import permutations
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from briskrl import ConfigError, WorkflowSpace
from briskrl.orders.linear_extensions import LinearExtensions
from briskrl.orders.order_arrays import neighbors, order_ids, order_ranks
from briskrl.orders.workflow import Workflow

pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda p: p[0] != p[1]))


@given(precedences=pairs)
def test_orders_that_keep_precedences_are_listed_in_lexicographic_order(
    precedences: list[tuple[int, int]],
) -> None:
    kept = [
        order
        for order in permutations(range(5))
        if all(order.index(a) < order.index(b) for a, b in precedences)
    ]
    found = LinearExtensions(5, precedences)
    assert found.size == len(kept)
    assert found.orders_at(np.arange(len(kept))).tolist() == [list(order) for order in kept]


@pytest.mark.parametrize("m", range(2, 8))
def test_a_space_without_constraints_holds_every_order_by_id(m: int) -> None:
    space = WorkflowSpace(tuple("abcdefg"[:m]))
    assert space.size == factorial(m) == len(space.orders)
    assert order_ids(space.orders).tolist() == list(range(factorial(m)))
    assert space.is_enumerable


def test_twelve_categories_work_without_enumeration() -> None:
    space = WorkflowSpace(tuple("abcdefghijkl"))
    assert space.size == 479_001_600
    assert not space.is_enumerable
    with pytest.raises(ValueError, match="not enumerated"):
        space.orders  # noqa: B018
    last = space.orders_at(np.array([space.size - 1]))
    assert last.tolist() == [list(range(11, -1, -1))]
    assert order_ids(last).tolist() == [space.size - 1]
    assert space.from_id(479_001_599).order == tuple(range(11, -1, -1))


def test_constraints_make_large_spaces_enumerable() -> None:
    names = tuple("abcdefghijkl")
    assert WorkflowSpace(names, require=[">".join(names)]).orders.tolist() == [list(range(12))]
    assert WorkflowSpace(names, require=["a>b>c>d>e>f>g>h>i>j"]).size == 12 * 11


def test_constraints_are_chains_of_names() -> None:
    space = WorkflowSpace("abcd", require=["A > c", "d>b"])
    assert space.size == 6
    ranks = order_ranks(space.orders)
    assert (ranks[:, 0] < ranks[:, 2]).all()
    assert (ranks[:, 3] < ranks[:, 1]).all()


@pytest.mark.parametrize(
    ("require", "message"),
    [
        (["a>b", "b>a"], "contradict each other"),
        (["a>b", "b>c", "c>a"], "contradict each other"),
        (["a"], "names one category"),
        (["a>x"], "unknown category 'x'"),
        (["a>a"], "repeats category 'a'"),
    ],
)
def test_impossible_constraints_are_rejected(require: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WorkflowSpace("abc", require=require)


def test_samples_are_uniform_and_keep_constraints() -> None:
    space = WorkflowSpace("abcd", require=["a>b"])
    drawn = order_ids(space.sample(np.random.default_rng(0), 12_000))
    ids, counts = np.unique(drawn, return_counts=True)
    assert ids.tolist() == order_ids(space.orders).tolist()
    # Chi squared with 11 degrees of freedom; 31.3 is its 99.9 % quantile.
    assert ((counts - 1000) ** 2 / 1000).sum() < 31.3


def test_samples_depend_on_the_generator_only() -> None:
    space = WorkflowSpace(tuple("abcdefghij"), require=["j>a"])
    first, second = (space.sample(np.random.default_rng(5), 50) for _ in range(2))
    assert (first == second).all()
    assert len(np.unique(order_ids(first))) > 45
    assert space.keeps_constraints(first).all()


def test_text_names_and_ids_are_parsed() -> None:
    space = WorkflowSpace("abc", named={"Reverse": "c>b>a", "odd": (1, 0, 2)})
    assert space.parse("b>a>C").id == 2
    assert space.parse(" reverse ").order == (2, 1, 0)
    assert space.parse("odd").names == ("b", "a", "c")
    assert space.parse("5") == space.named["Reverse"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b>a>c", "does not keep the constraints: 'a>b'"),
        ("2", "does not keep the constraints"),
        ("17", "ids are from 0 to 5"),
        ("rverse", "Did you mean 'reverse'"),
        ("a", "is not a workflow such as 'a>b>c', nor an id"),
    ],
)
def test_text_outside_the_space_is_rejected(text: str, message: str) -> None:
    space = WorkflowSpace("abc", require=["a>b"], named={"reverse": "a>c>b"})
    with pytest.raises(ConfigError, match=message):
        space.parse(text)


def test_well_known_orders_that_break_a_constraint_are_left_out() -> None:
    space = WorkflowSpace("abc", require=["a>b"], named={"yes": "a>b>c", "no": "b>a>c"})
    assert list(space.named) == ["yes"]


@pytest.mark.parametrize("name", ["", "a>b", "12"])
def test_names_that_could_be_something_else_are_rejected(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name"):
        WorkflowSpace("abc", named={name: "a>b>c"})


def test_orders_of_other_categories_are_not_in_the_space() -> None:
    assert Workflow(("a", "b", "x"), (0, 1, 2)) not in WorkflowSpace("abc")


def test_neighbors_are_all_moves_of_one_category() -> None:
    order = (2, 0, 3, 1)
    moved = set()
    for source in range(4):
        rest = [category for category in order if category != order[source]]
        for target in range(4):
            moved.add((*rest[:target], order[source], *rest[target:]))
    found = neighbors(np.array([order]))
    assert sorted(map(tuple, found.tolist())) == sorted(moved - {order})
    assert len(found) == 9
