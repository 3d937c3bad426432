"""One log of a run as bins: read a bit further with every request, never from the start again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from briskrl.web.series.bins import Bins
from briskrl.web.series.line_source import Block, LineSource
from briskrl.web.series.parse import Parser

SAMPLES, SAMPLE_BYTES = 400, 8192
"""Blocks of a preview: 3 MB, whatever the size of the file."""
EXACT_BYTES = 32 << 20
"""A part of a file up to this size is read whole for a zoom; larger ones are sampled."""


class LogSeries:
    """The rows of a log, as bins over all of them.

    Args:
        path: The log; it may not exist yet.
        make_parser: Makes a parser, given the first line of the file.
        skip_head: Whether the first line holds names, not numbers.
    """

    def __init__(
        self, path: Path, make_parser: Callable[[bytes], Parser], *, skip_head: bool = False
    ) -> None:
        self._source = LineSource(path)
        self._make_parser = make_parser
        self._skip_head = skip_head
        self._lock = threading.Lock()
        self.bins = Bins([])
        self._parser = make_parser(b"")
        self._file = (0, 0)
        self._size = self._offset = self._first_row = self._bad = 0
        self._preview: tuple[float, Bins] | None = None
        self._opened = False

    @property
    def progress(self) -> float:
        """Share of the file that has been read."""
        return 1.0 if self._size <= self._offset else self._offset / self._size

    @property
    def bad_lines(self) -> int:
        """Lines that are no rows."""
        return self._bad

    def advance(self, deadline: float) -> None:
        """Read on until the end of the file, or until a time of `time.monotonic` has come."""
        with self._lock:
            found = self._source.identity()
            if found is None:
                self._restart()
                return
            if found[:2] != self._file or found[2] < self._offset:
                # Another file, or one that a resume has cut off.
                self._restart()
                self._file = found[:2]
            self._size = found[2]
            if self._offset >= self._size:
                return
            try:
                if not self._open():
                    return
                for block in self._source.blocks(self._offset):
                    self._add(self.bins, block)
                    self._offset = block.end
                    if time.monotonic() >= deadline:
                        break
                else:
                    # What is left is a line that is still being written.
                    self._size = self._offset
            except OSError:
                self._restart()

    def overview(self) -> Bins:
        """Bins over the whole file: exact as soon as it has been read, before that from samples."""
        with self._lock:
            if self.progress >= 1.0:
                return self.bins.snapshot()
            if self._preview is None or time.monotonic() - self._preview[0] > 5.0:
                self._preview = (time.monotonic(), self._sampled(self._first_row, self._size))
            return self._preview[1]

    def window(self, begin: int, end: int) -> tuple[Bins, bool]:
        """Bins over a part of the file, and whether every row of it is in them."""
        with self._lock:
            if not self._open():
                return self.bins, True
            end = min(end, self._size)
            if end - begin > EXACT_BYTES:
                return self._sampled(begin, end), False
            bins = Bins(self._parser.columns)
            try:
                for block in self._source.blocks(begin, end):
                    self._add(bins, block)
            except OSError:
                return self.bins, False
            return bins, True

    @property
    def end(self) -> int:
        """Where the last line that is known ends."""
        return self._size

    def _restart(self) -> None:
        self.bins = Bins([])
        self._parser = self._make_parser(b"")
        self._file = (0, 0)
        self._size = self._offset = self._first_row = self._bad = 0
        self._preview = None
        self._opened = False

    def _open(self) -> bool:
        """Read the names of the columns; returns whether they are known."""
        if not self._opened:
            head = self._source.head() if self._skip_head else b""
            if self._skip_head and not head:
                return False
            self._parser = self._make_parser(head)
            self.bins = Bins(self._parser.columns)
            self._offset = self._first_row = len(head) + 1 if self._skip_head else 0
            self._opened = True
        return True

    def _sampled(self, begin: int, end: int) -> Bins:
        bins = Bins(self._parser.columns)
        try:
            for block in self._source.samples(begin, end, SAMPLES, SAMPLE_BYTES):
                self._add(bins, block)
        except OSError:
            return bins
        return bins

    def _add(self, bins: Bins, block: Block) -> None:
        rows = self._parser.parse(block.data)
        if bins is self.bins:
            self._bad += rows.bad
        bins.add_columns(self._parser.columns[len(bins.columns) :])
        bins.append(rows.values, rows.begin + block.begin)
