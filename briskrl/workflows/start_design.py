"""The first orders of a search: well-known ones, then orders far from those tried before."""

from __future__ import annotations

import numpy as np

from briskrl.core.types import Bools, Ints
from briskrl.orders.space import WorkflowSpace
from briskrl.workflows.candidates import Candidates
from briskrl.workflows.distances import Doubles, distances
from briskrl.workflows.history import History

CLOSE = 1e-12
"""Distances that differ by less are equal."""


def design_size(space: WorkflowSpace) -> int:
    """Orders to evaluate before the surrogate chooses."""
    return min(space.size, max(4, space.m + 1))


def next_of_design(
    space: WorkflowSpace,
    history: History,
    pool: Candidates,
    eligible: Bools,
    rng: np.random.Generator,
) -> int:
    """Index in the pool of the next order.

    At most `design_size` - 2 well-known orders come first. Then the order is chosen whose smallest
    Kendall distance to those tried is largest; equal ones by a random key. Orders that were tried
    come last, the least visited first.

    Args:
        space: The space.
        history: What was tried.
        pool: Orders to choose from.
        eligible: Those that may be chosen (n,), at least one.
        rng: Gives the random key.
    """
    tried = history.tried()
    for flow in list(space.named.values())[: max(0, design_size(space) - 2)]:
        place = np.flatnonzero(eligible & (pool.ids == flow.id))
        if flow.id not in tried and len(place):
            return int(place[0])
    keys = rng.random(len(pool.ids))
    fresh = eligible & ~np.isin(pool.ids, list(tried))
    if not fresh.any():
        visits = np.array([history.visits(number) for number in pool.ids.tolist()])
        keys, fresh = -visits.astype(np.float64), eligible
        return int(np.where(fresh, keys, -np.inf).argmax())
    far = _smallest_distances(space, pool.orders, tried)
    farthest = fresh & (far >= far[fresh].max() - CLOSE)
    return int(np.where(farthest, keys, -1.0).argmax())


def _smallest_distances(space: WorkflowSpace, orders: Ints, tried: set[int]) -> Doubles:
    """Kendall distance of each order (n, m) to the nearest one tried; 0 if there is none."""
    if not tried:
        return np.zeros(len(orders))
    known = np.array([space.from_id(number).order for number in sorted(tried)])
    nearest: Doubles = distances(orders, known, "kendall").min(axis=1)
    return nearest
