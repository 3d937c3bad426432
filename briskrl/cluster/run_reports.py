"""What a run that is a job reports and publishes while it trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from logging import getLogger
from typing import TYPE_CHECKING

from briskrl.core.errors import StorageError
from briskrl.core.types import JSON
from briskrl.training.reporter import Progress, RunInfo, RunResult

if TYPE_CHECKING:
    from briskrl.training.recorder import RunRecorder

_VALUES = ("env_steps", "fraction", "mean_score", "mean_return", "steps_per_s", "wall_s", "cpu_s")
_log = getLogger(__name__)


class JobReporter:
    """Passes the progress of a run on to the driver, and its notes to the log.

    Args:
        report: See `JobContext`. Gets env_steps, fraction, mean_score, mean_return, steps_per_s,
            wall_s and cpu_s; None for what is not known yet.
    """

    def __init__(self, report: Callable[[Mapping[str, JSON]], None]) -> None:
        self._report = report

    def on_start(self, info: RunInfo) -> None:
        """Report a sign of life."""
        self._report({})

    def on_warmup(self, seconds: float) -> None:
        """Report a sign of life."""
        _log.info("warm-up took %.1f s", seconds)
        self._report({})

    def on_progress(self, progress: Progress) -> None:
        """Report the progress."""
        self._report({name: getattr(progress, name) for name in _VALUES})

    def on_note(self, text: str) -> None:
        """Log the note, and report a sign of life."""
        _log.info("%s", text)
        self._report({})

    def on_end(self, result: RunResult) -> None:
        """Log how the run has ended."""
        _log.info("%s after %d steps", result.stopped, result.env_steps)


class PublishHook:
    """Publishes every new checkpoint; a failure is logged, and the next checkpoint tries again."""

    def __init__(self, publish: Callable[[], None]) -> None:
        self._publish = publish
        self._published: int | None = None

    def __call__(self, recorder: RunRecorder) -> None:
        """Publish if there is a new checkpoint."""
        step = recorder.saved_step
        if step != self._published and step is not None:
            self._published = step
            try:
                self._publish()
            except StorageError as error:
                _log.warning("%s Training continues; the next checkpoint is copied again.", error)
