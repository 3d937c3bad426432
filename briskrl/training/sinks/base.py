"""What a sink is, and the guard that keeps a failing one from stopping training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from briskrl.core.errors import StorageError
from briskrl.core.types import JSON
from briskrl.training.sinks.tags import Style, tagged
from briskrl.training.storage.metrics import Row

Points = Sequence[tuple[int, Mapping[str, float]]]
"""env_steps, and numbers by tag."""


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink may want to know about the run."""

    run_dir: Path
    env: str
    algo: str
    settings: Mapping[str, JSON]
    """Hyper-parameters by dotted name."""


class MetricSink(Protocol):
    """Receives the metrics of a run; may raise anything at any time."""

    def write(self, points: Points) -> None:
        """Write numbers."""
        ...

    def rewind(self, step: int) -> None:
        """Remove points of this env_steps and later, where that is possible, for a resume."""
        ...

    def finish(self, summary: Mapping[str, float], video: bytes | None) -> None:
        """Record the result of the run, and a game as a GIF."""
        ...

    def close(self) -> None:
        """Flush and close."""
        ...


class GuardedSink:
    """A sink that is turned off by its first failure, which is reported once.

    Args:
        name: Of the sink, for the user.
        open_sink: Builds it; called at the first use.
        style: Of the tags.
        note: Receives the report.
    """

    def __init__(
        self,
        name: str,
        open_sink: Callable[[], MetricSink],
        style: Style,
        note: Callable[[str], None],
    ) -> None:
        self.name = name
        self._open_sink = open_sink
        self._style: Style = style
        self._note = note
        self._sink: MetricSink | None = None
        self.is_off = False

    @property
    def takes_results(self) -> bool:
        """Whether it records more than rows of metrics."""
        return self.name != "csv"

    def write(self, rows: Sequence[Row]) -> None:
        """See MetricLog's Sink."""
        points = [(int(row["env_steps"]), tagged(row, self._style)) for row in rows]
        self._guarded(lambda sink: sink.write(points))

    def rewind(self, step: int) -> None:
        """See MetricLog's Sink."""
        self._guarded(lambda sink: sink.rewind(step))

    def finish(self, summary: Mapping[str, float], video: bytes | None) -> None:
        """See MetricSink."""
        self._guarded(lambda sink: sink.finish(summary, video))

    def close(self) -> None:
        """See MetricLog's Sink."""
        if self._sink is not None:
            self._guarded(lambda sink: sink.close())

    def _guarded(self, work: Callable[[MetricSink], None]) -> None:
        if self.is_off:
            return
        try:
            if self._sink is None:
                self._sink = self._open_sink()
            work(self._sink)
        except StorageError:
            # A full disk may have room again; the log reports it and tries later.
            raise
        except Exception as error:
            self.is_off = True
            text = str(error).strip().partition("\n")[0] or type(error).__name__
            self._note(f"--log {self.name} failed: {text}. Training continues without it.")
