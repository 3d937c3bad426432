"""The log of finished episodes: written inside kernels, drained as arrays, never looped over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import EpisodeStats
from briskrl.envs.kernels import episode_log as episode_log_kernels

_STEPS_KEPT = 16
_SMALLEST_RING = 4096
_TABLE_ROWS = 1024
"""Episodes of which the columns are allocated at once."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Sum, sum of squares and maximum of one number over episodes; the maximum of none is 0."""

    total: float
    squares: float
    largest: float


@dataclass(frozen=True, slots=True)
class Aggregates:
    """All episodes finished since the last drain, in a few numbers."""

    count: int
    steps: Moments
    returns: Moments
    score: Moments
    causes: NDArray[np.int64]
    """(7,): episodes per cause code; code 0 is unused."""


class _Part(EpisodeStats):
    """Rows of a table that is only added to; a column is looked up when it is asked for."""

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
        """What has not been looked up yet; a copy made from columns has no table."""
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
    """Records of the episodes of N envs, in one ring per lane: all envs, or a chunk of them.

    A ring holds every episode of 16 steps at the least, so that a caller who drains within 16 steps
    loses none; after that the oldest records go first. The aggregates count all of them.
    """

    def __init__(self, bounds: list[tuple[int, int]]) -> None:
        """Lay out the log for lanes that step the envs low..high-1 each."""
        num_lanes, num_envs = len(bounds), bounds[-1][1]
        smallest = -(-_SMALLEST_RING // num_lanes)
        rings = [max(smallest, _STEPS_KEPT * (high - low)) for low, high in bounds]
        first = num_lanes + num_envs
        self.rows = np.zeros((first + sum(rings), episode_log_kernels.LOG_COLUMNS), np.float64)
        self._lanes = self.rows[:num_lanes]
        self._totals = self.rows[num_lanes:first]
        self._written = self._lanes[:, episode_log_kernels.HEAD_WRITTEN]
        self._lanes[:, episode_log_kernels.HEAD_TOTALS] = num_lanes
        self._lanes[:, episode_log_kernels.HEAD_CAPACITY] = rings
        self._lanes[:, episode_log_kernels.HEAD_FIRST] = first + np.cumsum([0, *rings[:-1]])
        self._open_table(_TABLE_ROWS)

    def clear(self) -> None:
        """Forget every record and total."""
        self._lanes[:, (episode_log_kernels.HEAD_TICK, episode_log_kernels.HEAD_WRITTEN)] = 0
        self._totals[:] = 0

    def latest(self) -> NDArray[np.float64]:
        """Records of the last step, (M, LOG_COLUMNS)."""
        # A step writes one record per env at most, so there is no need to look at older ones.
        rows = self._pending(len(self._totals))
        latest: NDArray[np.float64] = rows[
            rows[:, episode_log_kernels.REC_TICK] == self._lanes[0, episode_log_kernels.HEAD_TICK]
        ]
        return latest

    def drain(self) -> EpisodeStats:
        """Records since the last drain, ordered by step and then by env."""
        # Done in every step of the loop, between computations that empty the caches: one kernel and
        # one small object, and numpy only if somebody looks at the episodes.
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
        episode_log_kernels.copy_episodes(
            rows, stats.env, stats.steps, stats.returns, stats.score, stats.won, stats.cause
        )
        self._written[:] = 0
        return stats

    def _open_table(self, num_rows: int) -> None:
        # Those who hold episodes of the table before keep it alive; nothing in it changes.
        self._table = _columns(num_rows)
        self._used = 0
        columns = (getattr(self._table, name) for name in self._table.__match_args__)
        self._drain_episodes: Callable[[int], int] = partial(
            episode_log_kernels.drain_episodes, self.rows, len(self._lanes), *columns
        )

    def drain_aggregates(self) -> Aggregates:
        """Totals since they were last drained."""
        totals = self._totals
        sums = totals.sum(axis=0)
        seen = totals[totals[:, episode_log_kernels.TOT_COUNT] > 0]

        def moments(column: int) -> Moments:
            largest = float(seen[:, column + 2].max()) if len(seen) else 0.0
            return Moments(float(sums[column]), float(sums[column + 1]), largest)

        causes = np.zeros(7, np.int64)
        causes[1:] = sums[episode_log_kernels.TOT_CAUSE + 1 :]
        result = Aggregates(
            count=int(sums[episode_log_kernels.TOT_COUNT]),
            steps=moments(episode_log_kernels.TOT_STEPS),
            returns=moments(episode_log_kernels.TOT_RETURN),
            score=moments(episode_log_kernels.TOT_SCORE),
            causes=causes,
        )
        totals[:] = 0
        return result

    def _pending(self, limit: int | None = None) -> NDArray[np.float64]:
        if len(self._lanes) == 1 and limit is None:
            lane = self._lanes[0]
            written, first = (
                int(lane[episode_log_kernels.HEAD_WRITTEN]),
                int(lane[episode_log_kernels.HEAD_FIRST]),
            )
            if written <= lane[episode_log_kernels.HEAD_CAPACITY]:
                # One lane writes in order; drained every step, it never goes round.
                return self.rows[first : first + written]
        written, ring = (
            self._lanes[:, (episode_log_kernels.HEAD_WRITTEN, episode_log_kernels.HEAD_CAPACITY)]
            .astype(np.int64)
            .T
        )
        kept = np.minimum(written, ring if limit is None else np.minimum(ring, limit))
        # One index per record, without a loop over lanes: its number in its lane comes first.
        lane = np.repeat(np.arange(len(kept)), kept)
        number = np.arange(len(lane)) + (written - np.cumsum(kept))[lane]
        places = (
            self._lanes[lane, episode_log_kernels.HEAD_FIRST].astype(np.int64) + number % ring[lane]
        )
        rows: NDArray[np.float64] = self.rows[places]
        return rows[
            np.lexsort(
                (rows[:, episode_log_kernels.REC_ENV], rows[:, episode_log_kernels.REC_TICK])
            )
        ]
