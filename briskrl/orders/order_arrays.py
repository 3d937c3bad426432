"""Arrays of orders: ids, ranks and neighbors."""

from __future__ import annotations

from math import factorial

import numpy as np

from briskrl.core.types import Ints


def order_ids(orders: Ints) -> Ints:
    """Lexicographic ranks (n,) of orders (n, m) among all orders."""
    m = orders.shape[1]
    ids = np.zeros(len(orders), np.int64)
    for place in range(m - 1):
        smaller_later = (orders[:, place + 1 :] < orders[:, place, None]).sum(axis=1)
        ids += smaller_later * factorial(m - 1 - place)
    return ids


def order_ranks(orders: Ints) -> Ints:
    """Place of each category (n, m) in orders (n, m)."""
    ranks: Ints = np.argsort(orders, axis=1)
    return ranks


def neighbors(orders: Ints) -> Ints:
    """All orders (k, m) that arise by moving one category of one of the orders (n, m).

    A move by one place swaps two adjacent categories. The result has no repetitions.
    """
    m = orders.shape[1]
    moves = np.array(
        [
            np.insert(np.delete(np.arange(m), source), target, source)
            for source in range(m)
            for target in range(m)
            if source != target
        ]
    )
    return unique_orders(orders[:, moves].reshape(-1, m))


def unique_orders(orders: Ints) -> Ints:
    """The orders (k, m) among (n, m) without repetitions, by ascending id."""
    _, first = np.unique(order_ids(orders), return_index=True)
    return orders[first]
