"""Append-only text files, and rows of numbers as lines of JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from briskrl.core.types import JSON
from briskrl.training.storage.atomic_files import storage_errors, write_all
from briskrl.training.storage.own_files import open_in_place
from briskrl.training.storage.strict_json import parse_json

_BLOCK = 65536


class AppendFile:
    """A file that grows by blocks, each of which is in it as a whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with storage_errors(f"open {path}"):
            self._descriptor = open_in_place(path, os.O_APPEND)
        self.size = os.fstat(self._descriptor).st_size
        self._unfinished = False

    def append(self, block: bytes) -> None:
        """Add a block in one write.

        Raises:
            StorageError: It could not be written, and is not in the file.
        """
        with storage_errors(f"write {self.path}"):
            # What an earlier write left must go first, or it would be a torn block in the middle.
            self._remove_unfinished()
            self._unfinished = True
            try:
                write_all(self._descriptor, block)
            except OSError:
                with suppress(OSError):
                    self._remove_unfinished()
                raise
            self.size += len(block)
            self._unfinished = False

    def truncate(self, size: int) -> None:
        """Truncate to at most `size` bytes."""
        with storage_errors(f"truncate {self.path}"):
            self.size = min(size, self.size)
            os.ftruncate(self._descriptor, self.size)

    def last_newline(self, end: int) -> int:
        """Where the last line that ends within the first `end` bytes ends; 0 if there is none."""
        while end > 0:
            begin = max(0, end - _BLOCK)
            found = os.pread(self._descriptor, end - begin, begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
        return 0

    def sync(self) -> None:
        """Flush the file to disk."""
        with storage_errors(f"write {self.path}"):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._descriptor >= 0:
            with suppress(OSError):
                self._remove_unfinished()
            os.close(self._descriptor)
            self._descriptor = -1

    def _remove_unfinished(self) -> None:
        """Remove what a failed or interrupted write may have left."""
        if self._unfinished:
            os.ftruncate(self._descriptor, self.size)
            self._unfinished = False


class LineFile(AppendFile):
    """An append-only text file of whole lines, also after its writer was killed."""

    def __init__(self, path: Path, header: bytes = b"") -> None:
        super().__init__(path)
        self._header = header
        # A torn last line is cut off by the first write; until then nothing is changed.
        self._whole = False
        if self.size == 0:
            self.truncate(0)

    def append(self, block: bytes) -> None:
        """Add whole lines in one write.

        Raises:
            StorageError: They could not be written, and are not in the file.
        """
        if not self._whole:
            self.truncate(self.size)
        super().append(block)

    def truncate(self, size: int) -> None:
        """Truncate to the last whole line within `size` bytes; the header stays."""
        with storage_errors(f"read {self.path}"):
            end = self.last_newline(min(size, self.size))
        super().truncate(end if end >= len(self._header) else 0)
        self._whole = True
        if self.size < len(self._header):
            super().append(self._header)


def plain(value: JSON) -> JSON:
    """The value with NumPy numbers as Python numbers, and None for NaN and infinities."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def json_line(row: Mapping[str, JSON]) -> bytes:
    """One row as one line."""
    return json.dumps(plain(row), allow_nan=False, separators=(",", ":")).encode() + b"\n"


def read_jsonl(path: Path) -> Iterator[dict[str, JSON]]:
    """The rows of a file, one at a time; an incomplete last line of a killed writer is skipped.

    Raises:
        ValueError: A complete line is not a JSON object.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                row = parse_json(line)
            except ValueError as error:
                raise ValueError(f"line {number} of {path} is not JSON: {error}") from error
            if not isinstance(row, dict):
                raise ValueError(f"line {number} of {path} is not a JSON object")
            yield row
