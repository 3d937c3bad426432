"""What happens between iterations: reporting and saving, each when it is due."""

from __future__ import annotations

from time import monotonic
from typing import Protocol

from briskrl.core.phase import Phase
from briskrl.training.recorder import RunRecorder


class Hook(Protocol):
    """Called between iterations; must be cheap when there is nothing to do."""

    def __call__(self, run: RunRecorder) -> None:
        """Look at the run and do what is due."""
        ...


class ReportHook:
    """A row of metrics, a fresh status file and a word to the reporter every few seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = monotonic() + seconds

    def __call__(self, run: RunRecorder) -> None:
        """Report if it is time."""
        now = monotonic()
        if now >= self._due:
            self._due = now + self._seconds
            with run.trainer.timer[Phase.LOG]:
                run.report()


class CheckpointHook:
    """A checkpoint every so many transitions, seconds, or both; 0 switches either off."""

    def __init__(self, *, steps: int, seconds: float) -> None:
        self._steps = steps
        self._seconds = seconds
        self._due = monotonic() + seconds

    def __call__(self, run: RunRecorder) -> None:
        """Save if it is time."""
        if self._by_steps(run) or self._by_time():
            with run.trainer.timer[Phase.SAVE]:
                run.save()
            self._due = monotonic() + self._seconds

    def _by_steps(self, run: RunRecorder) -> bool:
        if not self._steps:
            return False
        now = run.trainer.counters.env_steps
        return now // self._steps > (now - run.trainer.last_collected) // self._steps

    def _by_time(self) -> bool:
        return self._seconds > 0 and monotonic() >= self._due
