"""Means over the most recent episodes."""

from __future__ import annotations

import numpy as np

from briskrl.core.state_checks import loaded_finite, whole
from briskrl.core.types import EpisodeStats, State

_FIELDS = {"returns": "ret", "score": "score", "steps": "steps", "won": "won"}
"""Attributes of EpisodeStats, and the names of their arrays in a checkpoint."""


class RecentEpisodes:
    """A ring of the last `size` episodes; part of every checkpoint."""

    def __init__(self, size: int = 1000) -> None:
        self._ring = {name: np.zeros(size, np.float64) for name in _FIELDS}
        self._size = size
        self.total = 0
        """Episodes ever added."""

    @property
    def count(self) -> int:
        """Episodes the means are taken over."""
        return min(self.total, self._size)

    @property
    def mean_return(self) -> float | None:
        """None before the first episode has ended, as all means here."""
        return self._mean("returns")

    @property
    def mean_score(self) -> float | None:
        """Mean of the environment's own measure."""
        return self._mean("score")

    @property
    def mean_steps(self) -> float | None:
        """Mean length."""
        return self._mean("steps")

    @property
    def win_rate(self) -> float | None:
        """Share of episodes that solved the task outright."""
        return self._mean("won")

    def add(self, stats: EpisodeStats) -> None:
        """Add finished episodes, oldest first."""
        kept = min(stats.count, self._size)
        if kept == 0:
            return
        self.total += stats.count
        first = (self.total - kept) % self._size
        # Slices are faster than index lists, and this runs in almost every iteration.
        fits = min(kept, self._size - first)
        for name, ring in self._ring.items():
            newest = getattr(stats, name)[-kept:]
            ring[first : first + fits] = newest[:fits]
            if fits < kept:
                ring[: kept - fits] = newest[fits:]

    def state(self) -> State:
        """The ring, for a checkpoint."""
        return State(
            {_FIELDS[name]: ring.copy() for name, ring in self._ring.items()}, {"total": self.total}
        )

    def load_state(self, state: State) -> None:
        """Continue from what `state` returned; the sizes must be equal.

        Raises:
            InvalidStateError: They are not, or a number is impossible.
        """
        total = whole(state.scalars, "total")
        found = {
            name: loaded_finite(state.arrays, _FIELDS[name], ring)
            for name, ring in self._ring.items()
        }
        for name, ring in self._ring.items():
            ring[:] = found[name]
        self.total = total

    def _mean(self, name: str) -> float | None:
        return float(self._ring[name][: self.count].mean()) if self.total else None
