"""Packed orders: ids, places and encodings."""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, inline_helper, kernel
from briskrl.envs.workflow.kernels.layout import PAIRWISE, POSITION, RANK


@inline_helper
def category_at(order, place):
    """The category at a place of a packed order."""
    return (order >> (4 * place)) & 15


@helper
def place_of(order, m, category):
    """The place of a category in a packed order."""
    for place in range(m):
        if category_at(order, place) == category:
            return place
    return -1


@helper
def order_id(order, m):
    """Lexicographic rank among all orders."""
    found = 0
    for place in range(m):
        smaller = 0
        for later in range(place + 1, m):
            smaller += category_at(order, later) < category_at(order, place)
        # Horner's scheme in the factorial number system.
        found = found * (m - place) + smaller
    return found


@inline_helper
def required_category(order, m, open_mask):
    """The first open category of an order; -1 if none is open."""
    for place in range(m):
        category = category_at(order, place)
        if (open_mask >> category) & 1:
            return category
    return -1


@helper
def write_encoding(order, m, kind, row):
    """Write the encoding of a packed order; see `briskrl.orders.encoding`."""
    if kind == POSITION:
        row[:] = np.float32(0.0)
        for place in range(m):
            row[place * m + category_at(order, place)] = np.float32(1.0)
    elif kind == PAIRWISE:
        at = 0
        for first in range(m):
            for second in range(first + 1, m):
                before = place_of(order, m, first) < place_of(order, m, second)
                row[at] = np.float32(1.0) if before else np.float32(-1.0)
                at += 1
    elif kind == RANK:
        for place in range(m):
            row[category_at(order, place)] = np.float32(1.0 - place / (m - 1))


@kernel
def order_ids(orders, m, ids):
    """Write the ids (N,) of packed orders (N,)."""
    for i in range(len(orders)):
        ids[i] = order_id(orders[i], m)


@kernel
def required_categories(orders, m, open_masks, out):
    """Write the required category (N,) of packed orders (N,) and open masks (N,), or -1."""
    for i in range(len(orders)):
        out[i] = required_category(orders[i], m, open_masks[i])
