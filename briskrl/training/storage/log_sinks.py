"""Where batches of metric rows go."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from briskrl.core.errors import ConfigError
from briskrl.core.types import JSON
from briskrl.training.storage.atomic_files import storage_errors, write_all
from briskrl.training.storage.jsonl import plain

Row = Mapping[str, JSON]
_BLOCK = 65536


class Sink(Protocol):
    """A further consumer of metric rows."""

    def write(self, rows: Sequence[Row]) -> None:
        """Take a batch of rows; each has env_steps."""
        ...

    def rewind(self, step: int) -> None:
        """Take back the rows of this env_steps and later, as a resume asks."""
        ...

    def close(self) -> None:
        """Put everything on the disk."""
        ...


class LineFile:
    """An append-only text file that grows by whole lines, however its writers end."""

    def __init__(self, path: Path, header: bytes = b"") -> None:
        self.path = path
        self._header = header
        with storage_errors(f"open {path}"):
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        self.size = os.fstat(self._descriptor).st_size
        self.cut(self.size)

    def append(self, lines: bytes) -> None:
        """Add whole lines in one write.

        Raises:
            StorageError: They do not fit; nothing of them is left in the file.
        """
        with storage_errors(f"write {self.path}"):
            try:
                write_all(self._descriptor, lines)
            except OSError:
                os.ftruncate(self._descriptor, self.size)
                raise
        self.size += len(lines)

    def cut(self, size: int) -> None:
        """Drop everything past `size` bytes, and a line torn there; the header stays."""
        with storage_errors(f"cut {self.path}"):
            self.size = self._last_line_end(min(size, self.size))
            os.ftruncate(self._descriptor, self.size)
        if self.size < len(self._header):
            self.size = 0
            os.ftruncate(self._descriptor, 0)
            self.append(self._header)

    def sync(self) -> None:
        """Put the file on the disk."""
        with storage_errors(f"write {self.path}"):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _last_line_end(self, end: int) -> int:
        while end > 0:
            begin = max(0, end - _BLOCK)
            found = os.pread(self._descriptor, end - begin, begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
        return 0


class TensorBoardSink:
    """Every number of a row as a TensorBoard scalar at the row's env_steps; needs no torch."""

    def __init__(self, folder: Path) -> None:
        """Open a new event file in the folder that TensorBoard looks at.

        Raises:
            ConfigError: The tensorboard extra is not installed.
        """
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise ConfigError(
                "TensorBoard files need the tensorboard extra, which is not installed. "
                'Install it with: pip install "briskrl[tensorboard]"'
            ) from error
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._trainer = event_pb2.SessionLog
        self._closed = False
        with storage_errors(f"write TensorBoard files in {folder}"):
            self._writer = EventFileWriter(str(folder))

    def write(self, rows: Sequence[Row]) -> None:
        """Add the scalars of a batch of rows; nested names are joined by a slash."""
        with storage_errors("write TensorBoard files"):
            for row in rows:
                values = [
                    self._summary.Value(tag=tag, simple_value=value) for tag, value in _scalars(row)
                ]
                event = self._event(step=int(row["env_steps"]), wall_time=time.time())
                event.summary.CopyFrom(self._summary(value=values))
                self._writer.add_event(event)
            self._writer.flush()

    def rewind(self, step: int) -> None:
        """Hide the points of this step and later, in the files of earlier sessions too."""
        with storage_errors("write TensorBoard files"):
            start = self._trainer(status=self._trainer.START)
            self._writer.add_event(self._event(step=step, session_log=start))

    def close(self) -> None:
        """Finish the event file; may be called twice."""
        if not self._closed:
            self._closed = True
            with storage_errors("write TensorBoard files"):
                self._writer.close()


def _scalars(row: Row, prefix: str = "") -> list[tuple[str, float]]:
    found = []
    for name, value in plain(row).items():
        if isinstance(value, dict):
            found += _scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and f"{prefix}{name}" != "env_steps":
            found.append((prefix + name, float(value)))
    return found
