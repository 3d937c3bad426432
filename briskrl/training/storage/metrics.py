"""The log files of a run: metrics, episodes and phase times, written in batches of rows.

At most one batch is buffered, and every file grows by whole lines, so a killed run leaves at worst
an incomplete last line. Checkpoints record the sizes of the files; a resume truncates them to that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from briskrl.core.errors import ConfigError, StorageError
from briskrl.core.types import JSON, EpisodeStats, iter_rows
from briskrl.training.storage.atomic_files import storage_errors
from briskrl.training.storage.line_files import LineFile, json_line, plain

Row = Mapping[str, JSON]
BATCH_ROWS = 100
"""Buffered rows of one file that trigger a write."""
_EPISODE_HEADER = b"env_steps,env,steps,return,score,won,cause\n"


class Sink(Protocol):
    """An additional consumer of metric rows."""

    def write(self, rows: Sequence[Row]) -> None:
        """Write a batch of rows; each has env_steps."""
        ...

    def rewind(self, step: int) -> None:
        """Remove the rows of this env_steps and later, for a resume."""
        ...

    def close(self) -> None:
        """Flush everything to disk and close."""
        ...


class _Stream:
    """One file and its buffered lines."""

    def __init__(self, path: Path, header: bytes = b"") -> None:
        self.file = LineFile(path, header)
        self.buffered: list[bytes] = []

    def flush(self) -> None:
        if self.buffered:
            lines = b"".join(self.buffered)
            # Cleared first, so that lines do not pile up in memory when the disk is full.
            self.buffered.clear()
            self.file.append(lines)


class MetricLog:
    """Writes metrics.jsonl, episodes.csv and phases.jsonl in a run folder, and to other sinks.

    A failed write raises StorageError once. After that, rows are dropped and closing raises
    nothing, so that the run can still save a checkpoint and exit.
    """

    def __init__(
        self,
        folder: Path,
        *,
        flush_s: float,
        sinks: Sequence[Sink] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open the files; existing ones are appended to.

        Args:
            folder: The run folder.
            flush_s: Longest time that a row stays buffered, if `tick` is called often enough.
            sinks: Additional consumers of metric rows, closed with the log.
            now: Returns the time in seconds.
        """
        self._metrics = _Stream(folder / "metrics.jsonl")
        self._episodes = _Stream(folder / "episodes.csv", _EPISODE_HEADER)
        self._phases = _Stream(folder / "phases.jsonl")
        self._streams = (self._metrics, self._episodes, self._phases)
        self._sinks = list(sinks)
        self._rows: list[Row] = []
        self._last_step = -1
        self._flush_s = flush_s
        self._now = now
        self._flushed = now()
        self._failed = False

    def metrics(self, row: Row) -> None:
        """Add a row of numbers; it must have env_steps."""
        self._last_step = int(row["env_steps"])
        if self._sinks:
            self._rows.append(dict(row))
        self._add(self._metrics, [json_line(row)])

    def phases(self, row: Row) -> None:
        """Add a snapshot of the phase timer; it must have env_steps."""
        self._add(self._phases, [json_line(row)])

    def episodes(self, env_steps: int, stats: EpisodeStats) -> None:
        """Add finished episodes, with the transitions that had been collected by then."""
        start = b"%d," % env_steps
        self._add(
            self._episodes,
            [start + b"%d,%d,%.7g,%.7g,%d,%d\n" % episode for episode in iter_rows(stats)],
        )

    def tick(self) -> None:
        """Write the buffered rows every `flush_s` seconds; call it often, it is cheap."""
        if self._now() - self._flushed >= self._flush_s:
            self.flush()

    def flush(self) -> None:
        """Write all buffered rows.

        Raises:
            StorageError: It could not be written.
        """
        self._flushed = self._now()
        for stream in self._streams:
            self._write(stream)

    def offsets(self) -> dict[str, int]:
        """Sizes of the flushed files and env_steps of the last row, for a checkpoint."""
        self.flush()
        for stream in self._streams:
            stream.file.sync()
        sizes = {stream.file.path.name: stream.file.size for stream in self._streams}
        return {**sizes, "last_step": self._last_step}

    def truncate_to(self, offsets: Mapping[str, int]) -> None:
        """Remove everything that was written after the checkpoint of these `offsets`."""
        self._rows.clear()
        for stream in self._streams:
            stream.buffered.clear()
            stream.file.truncate(offsets.get(stream.file.path.name, 0))
        self._last_step = offsets.get("last_step", -1)
        for sink in self._sinks:
            sink.rewind(self._last_step + 1)

    def close(self) -> None:
        """Write all buffered rows and close the files; may be called twice.

        Raises:
            StorageError: The last rows could not be written, and no write failed before.
        """
        try:
            self.flush()
        finally:
            for stream in self._streams:
                stream.file.close()
            sinks, self._sinks = self._sinks, []
            for sink in sinks:
                sink.close()

    def __enter__(self) -> MetricLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _add(self, stream: _Stream, lines: list[bytes]) -> None:
        stream.buffered += lines
        if len(stream.buffered) >= BATCH_ROWS:
            self._write(stream)

    def _write(self, stream: _Stream) -> None:
        rows: list[Row] = []
        if stream is self._metrics:
            rows, self._rows = self._rows, []
        if self._failed:
            stream.buffered.clear()
            return
        try:
            stream.flush()
            for sink in self._sinks if rows else ():
                sink.write(rows)
        except StorageError:
            self._failed = True
            raise


class TensorBoardSink:
    """Every number of a row as a TensorBoard scalar at the row's env_steps; needs no torch."""

    def __init__(self, folder: Path) -> None:
        """Open a new event file in the folder.

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
        self._session_log = event_pb2.SessionLog
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
        """Hide the points of this step and later, also in files of earlier processes."""
        with storage_errors("write TensorBoard files"):
            start = self._session_log(status=self._session_log.START)
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
