"""The protocol of executors, which run jobs in other processes."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from briskrl.cluster.job import Job, JobEvent


class Executor(Protocol):
    """Runs jobs in processes of their own, on this machine or on others.

    A crash, kill or hang of one job costs that job one retry and nothing else. If jobs work on
    other machines, or a storage elsewhere is asked for, checkpoints are copied as they are written.
    """

    @property
    def folder(self) -> Path:
        """Folder of this machine with the folders of jobs, by their names.

        When a job has ended, its folder here holds everything but perhaps its checkpoints.
        """
        ...

    @property
    def slots(self) -> int:
        """Jobs of one core that run at the same time."""
        ...

    def submit(self, job: Job) -> None:
        """Queue a job; returns at once.

        Raises:
            BriskError: A job of this name was submitted before, or nothing can ever run it.
        """
        ...

    def wait(self, timeout_s: float | None = None) -> JobEvent | None:
        """The next event of any job; None after the timeout, or if no job is left."""
        ...

    def cancel(self, name: str) -> None:
        """Ask a job to save and stop; no effect on one that has ended."""
        ...

    def close(self) -> None:
        """Cancel what is left and release everything; may be called twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
