"""What the model of a search expects of all workflows, and how other searches would fare there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from briskrl.core.types import Ints
from briskrl.orders.order_arrays import order_ranks
from briskrl.workflows.distances import Doubles
from briskrl.workflows.run.outcome import Outcome

RANDOM_SEARCHES = 1000
"""Random searches that are averaged."""


@dataclass(frozen=True, slots=True)
class Landscape:
    """Expected scores of workflows, by ascending id."""

    ids: Ints
    """(n,)"""
    orders: Ints
    """(n, m)"""
    mean: Doubles
    """(n,)"""
    std: Doubles
    """(n,)"""
    kernel: str

    def pair_value(self, first: int, second: int) -> float | None:
        """Mean of the orders with `first` before `second` minus that of the others.

        None if constraints leave only one of the two.
        """
        ranks = order_ranks(self.orders)
        before = ranks[:, first] < ranks[:, second]
        if before.all() or not before.any():
            return None
        return float(self.mean[before].mean() - self.mean[~before].mean())

    def paths(self, searched: Sequence[int]) -> dict[str, Sequence[float]]:
        """Best expected score so far of this search, of random and of exhaustive search.

        Args:
            searched: Ids in the order of their evaluation; visits of the same one count again.
        """
        place = {number: row for row, number in enumerate(self.ids.tolist())}
        own = [float(self.mean[place[number]]) for number in searched if number in place]
        count = min(len(self.ids), max(len(own), 1))
        rng = np.random.default_rng(0)
        random = np.zeros(count)
        for _ in range(RANDOM_SEARCHES):
            drawn = self.mean[rng.permutation(len(self.ids))[:count]]
            random += np.maximum.accumulate(drawn) / RANDOM_SEARCHES
        return {
            "this search": np.maximum.accumulate(own).tolist() if own else [],
            "random search, mean": random.tolist(),
            "exhaustive search, by id": np.maximum.accumulate(self.mean[:count]).tolist(),
        }


def landscape_of(outcome: Outcome) -> Landscape | None:
    """The expected scores of a run; None if there are too few results for a model."""
    scored = outcome.searcher.posterior()
    model = outcome.searcher.model
    if scored is None or model is None:
        return None
    pool = scored.pool
    seen = model.predict(pool.orders)
    return Landscape(pool.ids, pool.orders, seen.mean, seen.std, model.score.parameters.kernel)
