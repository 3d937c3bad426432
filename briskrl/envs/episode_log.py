"""The log of finished episodes: written by kernels, drained as arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import EpisodeStats
from briskrl.envs.kernels import episode_log as k

_STEPS_KEPT = 16
_SMALLEST_RING = 4096
_TABLE_ROWS = 1024
"""Rows that are allocated at once for drained episodes."""


class _Part(EpisodeStats):
    """Rows of an append-only table; columns are sliced on first access."""

    __slots__ = ("_count", "_first", "_table")
    _count: int
    _first: int
    _table: EpisodeStats

    @classmethod
    def of(cls, table: EpisodeStats, first: int, count: int) -> EpisodeStats:
        """The rows first..first+count-1."""
        part = cls.__new__(cls)
        part._table = table
        part._first = first
        part._count = count
        return part

    def __getattr__(self, name: str) -> Any:
        """A column on its first access; a copy made from columns has no table."""
        if name == "_count":
            value: Any = len(self.env)
        elif name in self.__match_args__:
            value = getattr(self._table, name)[self._first : self._first + self._count]
        else:
            raise AttributeError(name)
        setattr(self, name, value)
        return value

    @property
    def count(self) -> int:
        """Number of episodes."""
        return self._count


def _columns(count: int) -> EpisodeStats:
    return EpisodeStats(
        env=np.empty(count, np.int32),
        steps=np.empty(count, np.int32),
        returns=np.empty(count, np.float32),
        score=np.empty(count, np.float32),
        won=np.empty(count, np.bool_),
        cause=np.empty(count, np.uint8),
    )


_NONE = _columns(0)


class EpisodeLog:
    """Records of the episodes of N envs, in one ring per lane (all envs, or a chunk of them).

    A ring holds all episodes of at least 16 steps, so a caller who drains within 16 steps loses
    none; after that the oldest records are overwritten.
    """

    def __init__(self, bounds: list[tuple[int, int]]) -> None:
        """Lay out the log for lanes that step the envs low..high-1 each."""
        num_lanes, num_envs = len(bounds), bounds[-1][1]
        smallest = -(-_SMALLEST_RING // num_lanes)
        rings = [max(smallest, _STEPS_KEPT * (high - low)) for low, high in bounds]
        self._num_envs = num_envs
        self.rows = np.zeros((num_lanes + sum(rings), k.LOG_COLUMNS), np.float64)
        self._lanes = self.rows[:num_lanes]
        self._written = self._lanes[:, k.HEAD_WRITTEN]
        self._lanes[:, k.HEAD_CAPACITY] = rings
        self._lanes[:, k.HEAD_FIRST] = num_lanes + np.cumsum([0, *rings[:-1]])
        self._open_table(_TABLE_ROWS)

    def clear(self) -> None:
        """Drop all records."""
        self._lanes[:, (k.HEAD_TICK, k.HEAD_WRITTEN)] = 0

    def latest(self) -> NDArray[np.float64]:
        """Records of the last step, (M, LOG_COLUMNS)."""
        # A step writes at most one record per env, so older ones need no look.
        rows = self._pending(self._num_envs)
        latest: NDArray[np.float64] = rows[rows[:, k.REC_TICK] == self._lanes[0, k.HEAD_TICK]]
        return latest

    def drain(self) -> EpisodeStats:
        """Records since the last drain, ordered by step and then by env."""
        # Called in every step of the loop, between computations that empty the caches: one kernel
        # and one small object; NumPy is used only if the episodes are read.
        count = self._drain_episodes(self._used)
        if count == 0:
            return _NONE
        if count < 0:
            return self._drain_rows()
        self._used += count
        return _Part.of(self._table, self._used - count, count)

    def _drain_rows(self) -> EpisodeStats:
        """Drain records that are out of order, or more than the table has room for."""
        written = int(self._written.sum())
        if self._used + written > len(self._table.env):
            self._open_table(max(written, _TABLE_ROWS))
            return self.drain()
        rows = self._pending()
        stats = _columns(len(rows))
        k.copy_episodes(
            rows, stats.env, stats.steps, stats.returns, stats.score, stats.won, stats.cause
        )
        self._written[:] = 0
        return stats

    def _open_table(self, num_rows: int) -> None:
        # Drained episodes keep their old table alive; it does not change.
        self._table = _columns(num_rows)
        self._used = 0
        columns = (getattr(self._table, name) for name in self._table.__match_args__)
        self._drain_episodes: Callable[[int], int] = partial(
            k.drain_episodes, self.rows, len(self._lanes), *columns
        )

    def _pending(self, limit: int | None = None) -> NDArray[np.float64]:
        if len(self._lanes) == 1 and limit is None:
            lane = self._lanes[0]
            written, first = (
                int(lane[k.HEAD_WRITTEN]),
                int(lane[k.HEAD_FIRST]),
            )
            if written <= lane[k.HEAD_CAPACITY]:
                # One lane writes in order; drained every step, its ring never wraps.
                return self.rows[first : first + written]
        written, ring = self._lanes[:, (k.HEAD_WRITTEN, k.HEAD_CAPACITY)].astype(np.int64).T
        kept = np.minimum(written, ring if limit is None else np.minimum(ring, limit))
        # One index per record without a loop over lanes, starting with its number in its lane.
        lane = np.repeat(np.arange(len(kept)), kept)
        number = np.arange(len(lane)) + (written - np.cumsum(kept))[lane]
        places = self._lanes[lane, k.HEAD_FIRST].astype(np.int64) + number % ring[lane]
        rows: NDArray[np.float64] = self.rows[places]
        return rows[np.lexsort((rows[:, k.REC_ENV], rows[:, k.REC_TICK]))]
