"""Metrics as TensorBoard files; needs the tensorboard extra, but no torch.

The records are written here and not by TensorBoard's own writer, whose thread ends with the first
failed write, for example on a full disk.
"""

from __future__ import annotations

import io
import itertools
import os
import socket
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from briskrl.core.errors import ConfigError
from briskrl.training.storage.atomic_files import make_folder, storage_errors
from briskrl.training.storage.line_files import AppendFile, plain
from briskrl.training.storage.metrics import Row

WAITING_RECORDS = 10_000
"""Records that wait in memory while they cannot be written; the oldest beyond that are dropped."""
_NUMBER = itertools.count()


class TensorBoardSink:
    """Every number of a row as a TensorBoard scalar at the row's env_steps."""

    def __init__(self, folder: Path) -> None:
        """Create a new event file in the folder.

        Raises:
            ConfigError: The tensorboard extra is not installed.
            StorageError: The file cannot be written.
        """
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError as error:
            raise ConfigError(
                "TensorBoard files need the tensorboard extra, which is not installed. "
                'Install it with: pip install "briskrl[tensorboard]"'
            ) from error
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._session_log = event_pb2.SessionLog
        self._record_writer = RecordWriter
        self._waiting: list[bytes] = []
        with storage_errors(f"write TensorBoard files in {folder}"):
            make_folder(folder)
        self._file = AppendFile(folder / _file_name())
        self._write([self._event(wall_time=time.time(), file_version="brain.Event:2")])

    def write(self, rows: Sequence[Row]) -> None:
        """Add the scalars of a batch of rows; nested names are joined by a slash.

        Raises:
            StorageError: They could not be written; they wait for the next time.
        """
        events = []
        for row in rows:
            values = [
                self._summary.Value(tag=tag, simple_value=value) for tag, value in _scalars(row)
            ]
            event = self._event(step=int(row["env_steps"]), wall_time=time.time())
            event.summary.CopyFrom(self._summary(value=values))
            events.append(event)
        self._write(events)

    def add_summary(self, summary: Any, *, step: int) -> None:
        """Add a summary of any kind.

        Raises:
            StorageError: It could not be written; it waits for the next time.
        """
        event = self._event(step=step, wall_time=time.time())
        event.summary.CopyFrom(summary)
        self._write([event])

    def rewind(self, step: int) -> None:
        """Hide the points of this step and later, also in files of earlier processes."""
        start = self._session_log(status=self._session_log.START)
        self._write([self._event(step=step, session_log=start)])

    def close(self) -> None:
        """Write what waits and close the file; may be called twice."""
        try:
            self._write([])
        finally:
            self._file.close()

    def _write(self, events: Iterable[Any]) -> None:
        for event in events:
            record = io.BytesIO()
            self._record_writer(record).write(event.SerializeToString())
            self._waiting.append(record.getvalue())
        del self._waiting[:-WAITING_RECORDS]
        if self._waiting:
            self._file.append(b"".join(self._waiting))
            self._waiting.clear()


def _file_name() -> str:
    """A name that TensorBoard finds, and sorts by the time of its creation."""
    unique = f"{socket.gethostname()}.{os.getpid()}.{next(_NUMBER)}"
    return f"events.out.tfevents.{int(time.time()):010d}.{unique}"


def _scalars(row: Row, prefix: str = "") -> list[tuple[str, float]]:
    found = []
    for name, value in plain(row).items():
        if isinstance(value, dict):
            found += _scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and f"{prefix}{name}" != "env_steps":
            found.append((prefix + name, float(value)))
    return found
