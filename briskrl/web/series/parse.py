"""Lines of logs as tables of numbers; lines that are no such rows are left out and counted."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from briskrl.web.series.bins import Table

MOST_COLUMNS = 200
"""Names beyond these are left out; ours have about twenty."""
LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Rows:
    """Parsed lines."""

    values: Table
    """(rows, columns); NaN where a row lacks the column."""
    begin: NDArray[np.int64]
    """(rows,): offset of each line within the block."""
    bad: int
    """Lines that were left out."""


class Parser(Protocol):
    """Turns blocks of whole lines into numbers."""

    columns: list[str]
    """Names that were found so far; only ever appended to."""

    def parse(self, block: bytes) -> Rows:
        """The rows of a block."""
        ...


class JsonRows:
    """Rows of flat JSON objects; only numbers count."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self._decoder: Any = None

    def parse(self, block: bytes) -> Rows:
        """The rows of a block."""
        import msgspec

        if self._decoder is not None:
            try:
                found = self._decoder.decode_lines(block)
                values = [msgspec.structs.astuple(row) for row in found]
                # None becomes NaN.
                table = np.array(values, np.float64).reshape(len(values), len(self.columns))
                begin = line_starts(block)
                if len(begin) == len(table):
                    return Rows(table, begin, 0)
            except (msgspec.ValidationError, msgspec.DecodeError):
                # A new name, or a line that is not a flat row: read them one by one.
                pass
        return self._parse_each(block)

    def _parse_each(self, block: bytes) -> Rows:
        rows: list[dict[str, float]] = []
        begin: list[int] = []
        bad = offset = 0
        for line in block.splitlines(keepends=True):
            row = _numbers(line)
            if row is None:
                bad += 1
            else:
                rows.append(row)
                begin.append(offset)
            offset += len(line)
        self._learn(rows)
        table = np.array([[row.get(name, math.nan) for name in self.columns] for row in rows])
        table = table.reshape(len(rows), len(self.columns))
        return Rows(table, np.array(begin, np.int64), bad)

    def _learn(self, rows: Sequence[dict[str, float]]) -> None:
        import msgspec

        known = set(self.columns)
        new = list(dict.fromkeys(name for row in rows for name in row if name not in known))
        if not new and self._decoder is not None:
            return
        self.columns += new[: MOST_COLUMNS - len(self.columns)]
        fields = [
            (f"f{index}", float | None, msgspec.field(default=None, name=name))
            for index, name in enumerate(self.columns)
        ]
        row_type = msgspec.defstruct("Row", fields, forbid_unknown_fields=True)
        self._decoder = msgspec.json.Decoder(row_type)


class EpisodeRows:
    """Rows of episodes.csv; the first line of the file names the columns."""

    def __init__(self, header: Sequence[str]) -> None:
        self.columns = [name for name in ("env_steps", "score", "return") if name in header]
        self._places = [list(header).index(name) for name in self.columns]

    def parse(self, block: bytes) -> Rows:
        """The rows of a block."""
        begin = line_starts(block)
        try:
            table = np.loadtxt(
                io.BytesIO(block), delimiter=",", usecols=self._places, ndmin=2, comments=None
            )
        except (ValueError, IndexError):
            return self._parse_each(block)
        return Rows(table, begin, 0) if len(table) == len(begin) else self._parse_each(block)

    def _parse_each(self, block: bytes) -> Rows:
        rows: list[list[float]] = []
        begin: list[int] = []
        bad = offset = 0
        for line in block.splitlines(keepends=True):
            parts = line.split(b",")
            try:
                rows.append([float(parts[place]) for place in self._places])
                begin.append(offset)
            except (ValueError, IndexError):
                bad += 1
            offset += len(line)
        table = np.array(rows, np.float64).reshape(len(rows), len(self.columns))
        return Rows(table, np.array(begin, np.int64), bad)


def line_starts(block: bytes) -> NDArray[np.int64]:
    """Where the lines of a block begin that ends with a newline."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    return np.concatenate(([0], ends[:-1] + 1)).astype(np.int64) if len(ends) else ends


def _numbers(line: bytes) -> dict[str, float] | None:
    """The numbers of one line; None if it is no row."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    found: dict[str, float] = {}
    for name, value in row.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and len(name) <= LONGEST_NAME and abs(value) < 1e300:
            found[name] = float(value)
    return found or None
