"""What a run reports while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from briskrl.core.types import JSON
from briskrl.workflows.run.folder import RunInfo
from briskrl.workflows.run.ledger import JobRecord


class WorkflowReporter(Protocol):
    """Receives the events of a run, in order."""

    def on_start(self, info: RunInfo, jobs: Mapping[str, JobRecord]) -> None:
        """The run begins or continues; `jobs` shows later changes, too."""
        ...

    def on_job(self, job: JobRecord) -> None:
        """A job has begun or ended."""
        ...

    def on_progress(self, job: JobRecord, values: Mapping[str, JSON]) -> None:
        """A training job has finished an update; see `update_values`."""
        ...

    def on_note(self, text: str) -> None:
        """Something worth knowing."""
        ...


class SilentReporter:
    """Reports nothing."""

    def on_start(self, info: RunInfo, jobs: Mapping[str, JobRecord]) -> None:
        """Ignore the start."""

    def on_job(self, job: JobRecord) -> None:
        """Ignore the job."""

    def on_progress(self, job: JobRecord, values: Mapping[str, JSON]) -> None:
        """Ignore the progress."""

    def on_note(self, text: str) -> None:
        """Ignore the note."""
