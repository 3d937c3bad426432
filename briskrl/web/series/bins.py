"""Columns of numbers in a bounded number of bins, whatever the number of rows.

Rows come in order. Every bin covers the same number of rows, a power of two; when there are too
many bins, neighbors are merged. A bin has the lowest, highest, mean and last value of every column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
CAPACITY = 2048
"""Bins at most; there are more than half as many, once there are enough rows."""


@dataclass(slots=True)
class Summary:
    """What is known about consecutive groups of rows; arrays are (groups, columns)."""

    low: Table
    high: Table
    total: Table
    count: Table
    """Finite values."""
    last: Table
    begin: NDArray[np.int64]
    """(groups,): where the first row of the group is in the file."""

    def merge(self, starts: NDArray[np.int64]) -> Summary:
        """Join groups; each new one begins at one of `starts`."""
        if not len(starts):
            return self
        ends = np.append(starts[1:], len(self.begin)) - 1
        return Summary(
            np.fmin.reduceat(self.low, starts, axis=0),
            np.fmax.reduceat(self.high, starts, axis=0),
            np.add.reduceat(self.total, starts, axis=0),
            np.add.reduceat(self.count, starts, axis=0),
            self.last[ends],
            self.begin[starts],
        )

    def then(self, other: Summary) -> Summary:
        """These groups and others that follow."""
        return Summary(
            np.concatenate((self.low, other.low)),
            np.concatenate((self.high, other.high)),
            np.concatenate((self.total, other.total)),
            np.concatenate((self.count, other.count)),
            np.concatenate((self.last, other.last)),
            np.concatenate((self.begin, other.begin)),
        )

    def widen(self, columns: int) -> Summary:
        """The same with more columns, which have had no values."""

        def added(table: Table, value: float) -> Table:
            filler = np.full((len(table), columns), value)
            return np.concatenate((table, filler), axis=1)

        return Summary(
            added(self.low, np.nan),
            added(self.high, np.nan),
            added(self.total, 0.0),
            added(self.count, 0.0),
            added(self.last, np.nan),
            self.begin,
        )


def summarize(values: Table, begin: NDArray[np.int64]) -> Summary:
    """Every row as a group of its own."""
    known = np.isfinite(values)
    finite = np.where(known, values, np.nan)
    count = known.astype(np.float64)
    return Summary(finite, finite, np.where(known, values, 0.0), count, finite, begin)


class Bins:
    """Bins over all rows so far."""

    def __init__(self, columns: Sequence[str], capacity: int = CAPACITY) -> None:
        self.columns = list(columns)
        self.rows = 0
        self.width = 1
        """Rows per bin."""
        self._capacity = capacity
        self._summary = summarize(np.zeros((0, len(self.columns))), np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self._summary.begin)

    def snapshot(self) -> Bins:
        """The bins as they are now, whatever is added later."""
        copy = Bins(self.columns, self._capacity)
        copy.rows, copy.width, copy._summary = self.rows, self.width, self._summary
        return copy

    def reduced(self, most: int) -> Bins:
        """The same rows in at most `most` bins."""
        copy = self.snapshot()
        step = -(-len(self) // max(1, most))
        if step > 1:
            copy._summary = self._summary.merge(np.arange(0, len(self), step))
            copy.width = self.width * step
        return copy

    def distinct(self, name: str) -> Bins:
        """The same with one bin for each last value of a column that never falls."""
        copy = self.snapshot()
        changes = np.diff(self.last(name), prepend=np.nan) != 0
        copy._summary = self._summary.merge(np.flatnonzero(changes))
        return copy

    def add_columns(self, names: Sequence[str]) -> None:
        """Add columns that the rows so far did not have."""
        if names:
            self._summary = self._summary.widen(len(names))
            self.columns += names

    def append(self, values: Table, begin: NDArray[np.int64]) -> None:
        """Add rows.

        Args:
            values: (rows, columns); NaN where there is no value.
            begin: (rows,), where each row begins in the file.
        """
        if not len(values):
            return
        while self.rows + len(values) > self.width * self._capacity:
            self.width *= 2
            self._summary = self._summary.merge(np.arange(0, len(self), 2))
        numbers = (self.rows + np.arange(len(values))) // self.width
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
        new = summarize(values, begin).merge(starts)
        joined = self._summary.then(new)
        if self.rows % self.width:
            # The last bin was not full: the first new rows belong to it.
            keep = np.delete(np.arange(len(joined.begin)), len(self))
            joined = joined.merge(keep)
        self._summary = joined
        self.rows += len(values)

    def low(self, name: str) -> Table:
        """The lowest value of a column in every bin; NaN where it has none."""
        return self._column(self._summary.low, name)

    def high(self, name: str) -> Table:
        """The highest value of a column in every bin; NaN where it has none."""
        return self._column(self._summary.high, name)

    def last(self, name: str) -> Table:
        """The value of a column in the last row of every bin; NaN if it had none there."""
        return self._column(self._summary.last, name)

    def mean(self, name: str) -> Table:
        """The mean of a column in every bin; NaN where it has no value."""
        total, count = (
            self._column(self._summary.total, name),
            self._column(self._summary.count, name),
        )
        means: Table = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
        return means

    @property
    def begin(self) -> NDArray[np.int64]:
        """Where the first row of every bin is in the file."""
        return self._summary.begin

    def _column(self, table: Table, name: str) -> Table:
        if name not in self.columns:
            return np.full(len(self), np.nan)
        column: Table = table[:, self.columns.index(name)]
        return column
