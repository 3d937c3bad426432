"""Orders as inputs of a network.

`position`: a one-hot row per place, flattened, m * m numbers. `pairwise`: for categories i < j, +1
if i comes before j and -1 otherwise, m * (m - 1) / 2 numbers. `rank`: 1 for the most urgent
category down to 0 for the least urgent one, m numbers.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from briskrl.core.errors import InvalidStateError
from briskrl.core.types import Array, Bools, Floats, Ints
from briskrl.orders.order_arrays import order_ranks

Encoding = Literal["position", "pairwise", "rank"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)


def encoding_width(m: int, kind: Encoding) -> int:
    """Length of the encoding of an order of `m` categories."""
    return {"position": m * m, "pairwise": m * (m - 1) // 2, "rank": m}[kind]


def encode(orders: Ints, kind: Encoding) -> Floats:
    """Encodings (n, width) of orders (n, m), one row each."""
    n, m = orders.shape
    if kind == "position":
        rows: Array = (orders[:, :, None] == np.arange(m)).reshape(n, m * m)
    elif kind == "pairwise":
        rows = precedence_signs(orders)
    else:
        rows = 1 - order_ranks(orders) / (m - 1)
    return rows.astype(np.float32)


def decode(rows: Array, m: int, kind: Encoding) -> Ints:
    """The orders (n, m) of encodings (n, width).

    Raises:
        InvalidStateError: A row is not the encoding of an order.
    """
    if rows.ndim != 2 or rows.shape[1] != encoding_width(m, kind):
        raise InvalidStateError(
            f"a {kind} encoding of {m} categories has {encoding_width(m, kind)} numbers per row, "
            f"not the shape {rows.shape}"
        )
    orders: Ints
    if kind == "position":
        orders = rows.reshape(len(rows), m, m).argmax(axis=2)
    elif kind == "pairwise":
        orders = np.argsort(_ranks_from_signs(rows, m), axis=1, kind="stable")
    else:
        orders = np.argsort(-rows, axis=1, kind="stable")
    wrong = ~_is_encoding(orders, rows, kind)
    if wrong.any():
        raise InvalidStateError(f"row {int(wrong.argmax())} is not the {kind} encoding of an order")
    return orders


def precedence_signs(orders: Ints) -> Ints:
    """For each pair i < j, +1 if i comes before j and -1 otherwise; (n, m * (m - 1) / 2)."""
    ranks = order_ranks(orders)
    first, second = np.triu_indices(orders.shape[1], 1)
    return np.where(ranks[:, first] < ranks[:, second], 1, -1)


def _ranks_from_signs(rows: Array, m: int) -> Ints:
    """The number of categories before each category (n, m)."""
    ranks = np.zeros((len(rows), m), np.int64)
    for column, (first, second) in enumerate(zip(*np.triu_indices(m, 1), strict=True)):
        ranks[:, second] += rows[:, column] > 0
        ranks[:, first] += rows[:, column] <= 0
    return ranks


def _is_encoding(orders: Ints, rows: Array, kind: Encoding) -> Bools:
    """Which rows (n,) are the encodings of these rows of indices."""
    m = orders.shape[1]
    permuted = (np.sort(orders, axis=1) == np.arange(m)).all(axis=1)
    safe = np.where(permuted[:, None], orders, np.arange(m))
    same = np.isclose(encode(safe, kind), rows, rtol=0, atol=1e-5).all(axis=1)
    valid: Bools = permuted & same
    return valid
