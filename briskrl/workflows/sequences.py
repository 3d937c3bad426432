"""Strategies that evaluate every order of a sequence once: exhaustive, random, and a given list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count

import numpy as np

from briskrl.core.rng import derive_seed
from briskrl.core.types import Ints
from briskrl.orders.order_arrays import order_ids
from briskrl.orders.space import WorkflowSpace
from briskrl.workflows.choice import Choice
from briskrl.workflows.history import History

CHUNK = 1024
"""Orders that are made at the same time."""


class SequenceStrategy:
    """Evaluates the orders of a sequence once each, skipping those tried.

    Args:
        space: The space.
        chunks: Starts the sequence anew: arrays (n, m) of orders, together without end or finite.
    """

    def __init__(self, space: WorkflowSpace, chunks: Callable[[], Iterator[Ints]]) -> None:
        self._space = space
        self._chunks = chunks

    def choose(self, history: History) -> Choice | None:
        """The next order; None if there is none."""
        tried = history.tried()
        if len(tried) >= self._space.size:
            return None
        known = np.array(sorted(tried), np.int64)
        for orders in self._chunks():
            fresh = ~np.isin(order_ids(orders), known)
            if fresh.any():
                return Choice(self._space.workflow(orders[fresh.argmax()].tolist()), "sequence")
        return None

    def is_exhausted(self, history: History) -> bool:
        """Whether there is nothing left to choose, whatever the pending results."""
        return self.choose(history) is None


def exhaustive(space: WorkflowSpace) -> SequenceStrategy:
    """All orders by ascending id."""

    def chunks() -> Iterator[Ints]:
        for first in range(0, space.size, CHUNK):
            yield space.orders_at(np.arange(first, min(first + CHUNK, space.size)))

    return SequenceStrategy(space, chunks)


def uniform(space: WorkflowSpace, seed: int) -> SequenceStrategy:
    """All orders in random order, uniformly and without replacement."""

    def chunks() -> Iterator[Ints]:
        if space.is_enumerable:
            rng = np.random.default_rng(derive_seed(seed, "random order"))
            yield space.orders[rng.permutation(space.size)]
            return
        for chunk in count():
            rng = np.random.default_rng(derive_seed(seed, f"random orders {chunk}"))
            yield space.sample(rng, CHUNK)

    return SequenceStrategy(space, chunks)


def listed(space: WorkflowSpace, workflows: Sequence[str]) -> SequenceStrategy:
    """The given orders, in their order.

    Raises:
        ConfigError: One of them cannot be read or is not in the space.
    """
    orders = np.array([space.parse(text).order for text in workflows], np.int64)
    return SequenceStrategy(space, lambda: iter([orders]))
