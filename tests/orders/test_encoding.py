"""Encodings of orders as inputs of a network."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.core.errors import InvalidStateError
from briskrl.orders.encoding import ENCODINGS, Encoding, decode, encode, encoding_width
from briskrl.orders.space import WorkflowSpace


@pytest.mark.parametrize("kind", ENCODINGS)
@pytest.mark.parametrize("m", range(2, 8))
def test_every_order_is_encoded_differently_and_decoded(m: int, kind: Encoding) -> None:
    orders = WorkflowSpace("abcdefg"[:m]).orders
    rows = encode(orders, kind)
    assert rows.shape == (len(orders), encoding_width(m, kind))
    assert rows.dtype == np.float32
    assert len(np.unique(rows, axis=0)) == len(orders)
    assert (decode(rows, m, kind) == orders).all()


def test_values_of_the_encodings() -> None:
    orders = np.array([[2, 0, 1]])
    assert encode(orders, "position").tolist() == [[0, 0, 1, 1, 0, 0, 0, 1, 0]]
    # Pairs (0, 1), (0, 2) and (1, 2).
    assert encode(orders, "pairwise").tolist() == [[1, -1, -1]]
    assert encode(orders, "rank").tolist() == [[0.5, 0, 1]]


def test_five_categories_need_25_inputs() -> None:
    assert [encoding_width(5, kind) for kind in ENCODINGS] == [25, 10, 5]


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("position", [1, 0, 0, 1, 0, 0, 0, 1, 0]),
        ("position", [0.5, 0, 0, 0, 1, 0, 0, 0, 1]),
        ("pairwise", [1, -1, 1]),
        ("pairwise", [1, 0, 1]),
        ("rank", [1, 0.4, 0]),
        ("rank", [1, float("nan"), 0]),
        ("rank", [1, 0.5]),
    ],
)
def test_rows_that_encode_no_order_are_rejected(kind: Encoding, row: list[float]) -> None:
    with pytest.raises(InvalidStateError, match=kind):
        decode(np.array([row], np.float32), 3, kind)
