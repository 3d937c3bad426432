"""What a sweep reports while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from briskrl.cluster.sweep.folder import SweepInfo
from briskrl.cluster.sweep.ledger import RunRecord
from briskrl.cluster.sweep.outcome import TrialSummary
from briskrl.core.types import JSON


class SweepReporter(Protocol):
    """Receives the events of a sweep, in order."""

    def on_start(self, info: SweepInfo, records: Mapping[str, RunRecord], jobs: int) -> None:
        """The sweep begins or continues.

        Args:
            info: What it does.
            records: Its runs by name; the same object shows later changes.
            jobs: Runs at the same time.
        """
        ...

    def on_run(self, record: RunRecord) -> None:
        """A run has begun or ended."""
        ...

    def on_progress(self, record: RunRecord, values: Mapping[str, JSON]) -> None:
        """A run reports; see `JobReporter` for the values."""
        ...

    def on_trial(self, trial: TrialSummary) -> None:
        """A trial has ended."""
        ...

    def on_note(self, text: str) -> None:
        """Something worth knowing."""
        ...


class SilentReporter:
    """Reports nothing."""

    def on_start(self, info: SweepInfo, records: Mapping[str, RunRecord], jobs: int) -> None:
        """Ignore the start."""

    def on_run(self, record: RunRecord) -> None:
        """Ignore the run."""

    def on_progress(self, record: RunRecord, values: Mapping[str, JSON]) -> None:
        """Ignore the progress."""

    def on_trial(self, trial: TrialSummary) -> None:
        """Ignore the trial."""

    def on_note(self, text: str) -> None:
        """Ignore the note."""
