"""The log files of a run: metrics, episodes and phase times, written in batches of rows.

Every file grows by whole lines, so a killed run leaves at worst an incomplete last line. At most
one batch is buffered; only while the disk is full more lines wait in memory, up to a limit.
Checkpoints record the sizes of the files; a resume truncates them to that.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Protocol

from briskrl.core.errors import StorageError
from briskrl.core.state_checks import whole
from briskrl.core.types import JSON, EpisodeStats, iter_rows
from briskrl.training.storage.line_files import LineFile, json_line

Row = Mapping[str, JSON]
BATCH_ROWS = 100
"""Buffered rows of one file that trigger a write."""
WAITING_BYTES = 8 << 20
"""Size of the rows of one file that wait in memory while it cannot be written; the oldest beyond
that are dropped."""
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
    """One file and the lines that are not in it yet."""

    def __init__(self, path: Path, header: bytes = b"") -> None:
        self.file = LineFile(path, header)
        self.buffered: list[bytes] = []
        self.waiting: deque[bytes] = deque()
        """Batches of lines that could not be written."""
        self.dropped = 0
        """Lines that were given up because too many waited."""

    def flush(self) -> None:
        """Write all lines.

        Raises:
            StorageError: They could not be written; they wait for the next time.
        """
        self.keep()
        if self.waiting:
            self.file.append(b"".join(self.waiting))
            self.waiting.clear()

    def keep(self) -> None:
        """Move the buffered lines to those that wait, and drop the oldest beyond the limit."""
        if self.buffered:
            self.waiting.append(b"".join(self.buffered))
            self.buffered.clear()
        excess = sum(map(len, self.waiting)) - WAITING_BYTES
        while excess > 0 and len(self.waiting) > 1:
            batch = self.waiting.popleft()
            excess -= len(batch)
            self.dropped += batch.count(b"\n")


class MetricLog:
    """Writes the logs of a run folder, and metrics and evaluations to other sinks.

    Rows that cannot be written wait in memory, up to `WAITING_BYTES` per file, and every flush
    tries again.
    """

    def __init__(
        self,
        folder: Path,
        *,
        flush_s: float,
        with_evaluations: bool = False,
        sinks: Sequence[Sink] = (),
        on_error: Callable[[StorageError], None] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open the files; existing ones are appended to.

        Args:
            folder: The run folder.
            flush_s: Longest time that a row stays buffered, if `tick` is called often enough.
            with_evaluations: Also write evaluations.jsonl.
            sinks: Additional consumers of metric rows, closed with the log.
            on_error: Called for every failed write; without it, `flush`, `offsets` and `close`
                raise.
            now: Returns the time in seconds.
        """
        self._metrics = _Stream(folder / "metrics.jsonl")
        self._episodes = _Stream(folder / "episodes.csv", _EPISODE_HEADER)
        self._phases = _Stream(folder / "phases.jsonl")
        self._streams = [self._metrics, self._episodes, self._phases]
        if with_evaluations:
            self._evaluations = _Stream(folder / "evaluations.jsonl")
            self._streams.append(self._evaluations)
        self._sinks = list(sinks)
        self._rows: list[Row] = []
        self._last_step = -1
        self._flush_s = flush_s
        self._now = now
        self._flushed = now()
        self._on_error = on_error or _raise
        self._closed = False

    @property
    def unwritten(self) -> int:
        """Rows that could not be written and wait."""
        return sum(batch.count(b"\n") for stream in self._streams for batch in stream.waiting)

    @property
    def dropped(self) -> int:
        """Rows that were given up because too many waited."""
        return sum(stream.dropped for stream in self._streams)

    def metrics(self, row: Row) -> None:
        """Add a row of numbers; it must have env_steps."""
        self._last_step = int(row["env_steps"])
        if self._sinks:
            self._rows.append(dict(row))
        self._add(self._metrics, [json_line(row)])

    def evaluation(self, row: Row) -> None:
        """Add the result of an evaluation; it must have env_steps."""
        if self._sinks:
            named = {f"eval_{key}": value for key, value in row.items() if key != "env_steps"}
            self._rows.append({"env_steps": row["env_steps"], **named})
        self._add(self._evaluations, [json_line(row)])

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
        """Write all rows, also those that could not be written before."""
        self._flushed = self._now()
        for stream in self._streams:
            self._write(stream)

    def offsets(self) -> dict[str, int]:
        """Sizes of the flushed files and env_steps of the last row, for a checkpoint.

        Rows that wait are not part of it: a resume from that checkpoint goes on without them.
        """
        self.flush()
        for stream in self._streams:
            self._attempt(stream.file.sync)
        sizes = {stream.file.path.name: stream.file.size for stream in self._streams}
        return {**sizes, "last_step": self._last_step}

    def truncate_to(self, offsets: Mapping[str, int]) -> None:
        """Remove everything that was written after the checkpoint of these `offsets`."""
        self._rows.clear()
        for stream in self._streams:
            stream.buffered.clear()
            stream.waiting.clear()
            stream.file.truncate(offsets.get(stream.file.path.name, 0))
        self._last_step = offsets.get("last_step", -1)
        for sink in self._sinks:
            sink.rewind(self._last_step + 1)

    def close(self) -> None:
        """Write all rows and close the files; may be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
        finally:
            for stream in self._streams:
                stream.file.close()
            for sink in self._sinks:
                self._attempt(sink.close)

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
        if len(stream.buffered) < BATCH_ROWS:
            return
        if stream.waiting:
            # Trying again is left to `tick`, because a full disk would fail for every batch.
            stream.keep()
        else:
            self._write(stream)

    def _write(self, stream: _Stream) -> None:
        self._attempt(stream.flush)
        if stream is self._metrics and self._rows:
            rows, self._rows = self._rows, []
            for sink in self._sinks:
                self._attempt(partial(sink.write, rows))

    def _attempt(self, write: Callable[[], None]) -> None:
        try:
            write()
        except StorageError as error:
            self._on_error(error)


def _raise(error: StorageError) -> None:
    raise error


def check_offsets(offsets: Mapping[str, JSON]) -> None:
    """Check what `MetricLog.offsets` returned, from a file.

    Raises:
        InvalidStateError: It holds something else than whole numbers.
    """
    for name, value in offsets.items():
        # No row has been written while the last step is -1.
        if name != "last_step" or value != -1:
            whole(offsets, name)
