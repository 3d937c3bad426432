"""Count, enumerate and draw the orders that keep given precedences, for up to 12 categories.

`counts[placed]` is the number of ways to complete an order of which the categories in the bit mask
`placed` come first. With it the k-th order is found one category at a time, so no list of orders is
needed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from briskrl.core.types import Bools, Ints


class LinearExtensions:
    """All orders of `m` categories that keep every precedence, in lexicographic order.

    Args:
        m: Number of categories.
        precedences: Pairs of indices; the first comes before the second.
    """

    def __init__(self, m: int, precedences: Iterable[tuple[int, int]] = ()) -> None:
        self.m = m
        self._before = np.zeros(m, np.int64)
        for first, second in precedences:
            self._before[second] |= 1 << first
        self._counts = self._completions()

    @property
    def size(self) -> int:
        """Number of orders; 0 if the precedences contradict each other."""
        return int(self._counts[0])

    def orders_at(self, positions: Ints) -> Ints:
        """The orders (n, m) at these positions (n,) of the lexicographic list."""
        rest = positions.astype(np.int64)
        placed = np.zeros(len(rest), np.int64)
        orders = np.zeros((len(rest), self.m), np.int64)
        for place in range(self.m):
            chosen = np.full(len(rest), -1)
            for category in range(self.m):
                bit = 1 << category
                possible = (chosen < 0) & self._may_follow(category, placed)
                below = np.where(possible, self._counts[placed | bit], 0)
                chosen[possible & (rest < below)] = category
                rest -= np.where(chosen < 0, below, 0)
            orders[:, place] = chosen
            placed |= 1 << chosen
        return orders

    def _may_follow(self, category: int, placed: Ints) -> Bools:
        before = self._before[category]
        follows: Bools = (placed & (1 << category) == 0) & (placed & before == before)
        return follows

    def _completions(self) -> Ints:
        """Ways to complete an order (2**m,), by the mask of the categories placed first."""
        masks = np.arange(1 << self.m)
        counts = np.zeros(1 << self.m, np.int64)
        counts[-1] = 1
        placed_count = np.array([int(mask).bit_count() for mask in masks])
        for count in reversed(range(self.m)):
            layer = masks[placed_count == count]
            for category in range(self.m):
                follows = self._may_follow(category, layer)
                counts[layer] += np.where(follows, counts[layer | 1 << category], 0)
        return counts
