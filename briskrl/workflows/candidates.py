"""The orders that are compared in one round of the search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from briskrl.core.types import Ints
from briskrl.orders.order_arrays import neighbors, order_ids, unique_orders
from briskrl.orders.space import WorkflowSpace

RANDOM_CANDIDATES = 2000
"""Random orders per round in spaces that are too large to compare all orders."""
IMPROVED = 5
"""Number of best orders whose neighbors are candidates."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Different orders by ascending id."""

    ids: Ints
    """(n,)"""
    orders: Ints
    """(n, m)"""


def candidates(
    space: WorkflowSpace, evaluated: Ints, best: Ints, rng: np.random.Generator
) -> Candidates:
    """All orders of an enumerable space; a selection of a larger one.

    Args:
        space: The space.
        evaluated: Orders (n, m) that have a score; all of them are candidates.
        best: The best of them (k, m); of a larger space, their neighbors are candidates.
        rng: For the random candidates of a larger space.
    """
    if space.is_enumerable:
        return Candidates(order_ids(space.orders), space.orders)
    near = neighbors(best)
    near = near[space.keeps_constraints(near)]
    named = np.array([flow.order for flow in space.named.values()], np.int64)
    random = space.sample(rng, RANDOM_CANDIDATES)
    parts = [evaluated, near, named.reshape(-1, space.m), random]
    orders = unique_orders(np.concatenate(parts))
    return Candidates(order_ids(orders), orders)
