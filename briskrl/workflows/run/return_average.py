"""Averages of training returns per workflow, and the workflows that look best by them."""

from __future__ import annotations

import logging

import numpy as np

from briskrl.core.errors import InvalidStateError
from briskrl.core.state_checks import check_finite, check_range
from briskrl.core.types import Array, Ints
from briskrl.orders.space import WorkflowSpace
from briskrl.workflows.acquisition import best_few
from briskrl.workflows.candidates import candidates
from briskrl.workflows.distances import Doubles
from briskrl.workflows.surrogate import OrderSurrogate, SurrogateError

WEIGHT = 0.1
"""Of the newest return in an average."""
FEWEST_EPISODES = 5
"""Episodes of a workflow before its average counts."""
FEWEST_WORKFLOWS = 3
"""Workflows with an average before there is a surrogate."""
FOCUS_SHARE = 0.1
"""Part of the space that is trained more."""
MOST_FOCUSED = 512
"""Workflows that are trained more, at most; the environments can hold no longer list."""
MOST_MODELED = 1000
"""Workflows that a surrogate is fitted to, those with the most episodes; its cost grows with the
cube of their number."""
BETA = 2.0
"""Standard deviations added to the expected return."""

_log = logging.getLogger(__name__)


class ReturnAverage:
    """Exponential averages of the returns of episodes, by workflow."""

    def __init__(self) -> None:
        self._averages: dict[int, tuple[float, int]] = {}

    def add(self, ids: Ints, returns: Doubles) -> None:
        """Add finished episodes (M,), in order."""
        for number, value in zip(ids.tolist(), returns.tolist(), strict=True):
            before, count = self._averages.get(number, (value, 0))
            self._averages[number] = (before + WEIGHT * (value - before), count + 1)

    def focus(self, space: WorkflowSpace, rng: np.random.Generator) -> list[int]:
        """The tenth of the workflows with the largest upper confidence bounds.

        Empty if too few workflows have been seen, or no surrogate fits.
        """
        known = [(c, i, v) for i, (v, c) in self._averages.items() if c >= FEWEST_EPISODES]
        known = sorted(sorted(known, reverse=True)[:MOST_MODELED], key=lambda entry: entry[1])
        if len(known) < FEWEST_WORKFLOWS:
            return []
        orders = np.array([space.from_id(number).order for _, number, _ in known], np.int64)
        scores = np.array([value for _, _, value in known])
        # An average has the noise of about 1 / WEIGHT episodes, whatever their number.
        episodes = np.minimum([count for count, _, _ in known], 2 / WEIGHT)
        try:
            surrogate = OrderSurrogate.fit(orders, scores, episodes)
        except SurrogateError as error:
            _log.warning("%s All workflows are trained equally.", error)
            return []
        best = orders[np.argsort(-scores, kind="stable")[:5]]
        pool = candidates(space, orders, best, rng)
        seen = surrogate.predict(pool.orders)
        bounds = (seen.mean + BETA * seen.std - surrogate.center) / surrogate.scale
        count = min(MOST_FOCUSED, -(-space.size // round(1 / FOCUS_SHARE)))
        return [int(pool.ids[row]) for row in best_few(bounds, np.ones(len(bounds), bool), count)]

    def state(self) -> Array:
        """Id, average and number of episodes of every workflow, (n, 3)."""
        rows = [(number, value, count) for number, (value, count) in self._averages.items()]
        return np.array(rows, np.float64).reshape(-1, 3)

    def load_state(self, rows: Array, most: int) -> None:
        """Continue from what `state` returned; ids are below `most`.

        Raises:
            InvalidStateError: It is impossible.
        """
        if rows.dtype != np.float64 or rows.ndim != 2 or rows.shape[1] != 3:
            raise InvalidStateError("the averages of returns have another form")
        check_finite("averages of returns", rows)
        check_range("workflows with averages", rows[:, 0], 0, most - 1)
        check_range("episodes of averages", rows[:, 2], 1, 2**53)
        self._averages = {int(i): (float(v), int(c)) for i, v, c in rows}
