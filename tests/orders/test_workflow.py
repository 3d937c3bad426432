"""One workflow as indices, as an id and as text."""

from __future__ import annotations

from itertools import permutations

import pytest

from briskrl import ConfigError, Workflow
from briskrl.orders.workflow import parse_workflow

CAGE2 = ("defender", "enterprise", "op_server", "op_host", "user")


@pytest.mark.parametrize("m", range(2, 8))
def test_ids_are_lexicographic_ranks(m: int) -> None:
    names = tuple("abcdefg"[:m])
    for number, order in enumerate(permutations(range(m))):
        workflow = Workflow(names, order)
        assert workflow.id == number
        assert Workflow.from_id(names, number) == workflow


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("defender>op_server>enterprise>op_host>user", 6),
        ("enterprise>defender>op_server>op_host>user", 24),
        ("user>defender>enterprise>op_server>op_host", 96),
        ("op_server>op_host>defender>enterprise>user", 60),
        ("defender>enterprise>op_server>user>op_host", 1),
        ("user>op_host>enterprise>op_server>defender", 117),
    ],
)
def test_ids_of_well_known_orders_of_network_defense(text: str, number: int) -> None:
    workflow = parse_workflow(text, CAGE2)
    assert workflow.id == number
    assert str(workflow) == text


def test_names_and_ranks_follow_the_order() -> None:
    workflow = Workflow(("a", "b", "c"), (2, 0, 1))
    assert workflow.names == ("c", "a", "b")
    assert workflow.ranks == (1, 2, 0)


def test_blanks_and_case_do_not_matter() -> None:
    assert parse_workflow("  User > OP_host>a ", ("a", "op_host", "user")).order == (2, 1, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a>b", "lacks category 'c'"),
        ("a", "lacks categories 'b', 'c'"),
        ("a>b>c>B", "repeats category 'b'"),
        ("a>b>d", "unknown category 'd'"),
        ("a>>c", "unknown category ''"),
        ("", "unknown category ''"),
    ],
)
def test_text_that_is_no_order_is_rejected_with_the_names(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_workflow(text, ("a", "b", "c"))


@pytest.mark.parametrize("order", [(0, 1), (0, 1, 1), (0, 1, 3), (0, 1, 2, 3), (-1, 0, 1)])
def test_indices_that_are_no_order_are_rejected(order: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="does not hold each index"):
        Workflow(("a", "b", "c"), order)


@pytest.mark.parametrize("number", [-1, 6, 10**30])
def test_ids_without_an_order_are_rejected(number: int) -> None:
    with pytest.raises(ConfigError, match="ids are from 0 to 5"):
        Workflow.from_id(("a", "b", "c"), number)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a",), "1 categories"),
        (tuple("abcdefghijklm"), "13 categories"),
        (("a", "A"), "differ in more than case"),
        (("a", "b>c"), "cannot be used"),
        (("a", ""), "cannot be used"),
        (("a", " b"), "cannot be used"),
        (("a", "b\n"), "cannot be used"),
    ],
)
def test_categories_that_cannot_be_ordered_are_rejected(
    names: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_workflow("a>b", names)
