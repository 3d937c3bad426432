"""Blocks of whole lines from a log that may be growing, huge, truncated or gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from briskrl.training.storage.own_files import open_regular

BLOCK = 2 << 20
LONGEST_LINE = 1 << 20
"""A longer line is skipped, because no row is that long."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file."""

    begin: int
    """Where the first of them begins in the file."""
    data: bytes

    @property
    def end(self) -> int:
        """Where the last of them ends."""
        return self.begin + len(self.data)


class LineSource:
    """Reads one file; every call opens it anew, so that nothing is kept open."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def identity(self) -> tuple[int, int, int] | None:
        """Device and number of the file, and its size; None if there is no such file."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size

    def head(self) -> bytes:
        """The first line, without its end; empty if it is not complete yet."""
        for block in self.blocks(0, BLOCK):
            return block.data[: block.data.find(b"\n")]
        return b""

    def blocks(self, begin: int, end: int | None = None) -> Iterator[Block]:
        """All complete lines from `begin` to `end`; both are where lines begin.

        Raises:
            OSError: The file cannot be read, or is not a regular file.
        """
        with open(open_regular(self.path), "rb", buffering=0) as file:
            position, rest = begin, b""
            while True:
                place = position + len(rest)
                size = BLOCK if end is None else min(BLOCK, end - place)
                data = os.pread(file.fileno(), size, place) if size > 0 else b""
                if not data:
                    return
                rest += data
                cut = rest.rfind(b"\n") + 1
                if cut:
                    yield Block(position, rest[:cut])
                    position, rest = position + cut, rest[cut:]
                elif len(rest) > LONGEST_LINE:
                    position, rest = position + len(rest), b""

    def samples(self, begin: int, end: int, count: int, size: int) -> Iterator[Block]:
        """Short blocks at equal distances, each without its first and last incomplete line."""
        step = max(size, (end - begin) // count)
        with open(open_regular(self.path), "rb", buffering=0) as file:
            for place in range(begin, end, step):
                data = os.pread(file.fileno(), min(size, end - place), place)
                first = 0 if place == begin else data.find(b"\n") + 1
                last = data.rfind(b"\n") + 1
                if first < last:
                    yield Block(place + first, data[first:last])
