"""Runs jobs in the calling process, one after the other."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from briskrl.cluster.job import (
    Job,
    JobCancelled,
    JobContext,
    JobDone,
    JobEvent,
    JobFailed,
    JobProgress,
    JobRetried,
    JobStarted,
    JobStopped,
)
from briskrl.cluster.job_folder import check_name
from briskrl.core.errors import BriskError
from briskrl.core.types import JSON
from briskrl.training.storage.atomic_files import make_folder, storage_errors
from briskrl.training.storage.line_files import plain

_log = logging.getLogger(__name__)


class SerialExecutor:
    """Runs each job inside `wait`, in the order in which they were submitted.

    The driver hears of progress through `listen`, because it cannot wait for events meanwhile. It
    may cancel the job there.

    Args:
        folder: Where the folders of jobs are.
        listen: Gets the progress of the running job.
        retries: How often a job is started again after an error that is no BriskError.
        should_stop: Whether the running job is to save and stop; jobs ask often, also while they
            report nothing.
    """

    slots = 1

    def __init__(
        self,
        folder: Path,
        listen: Callable[[JobProgress], None],
        *,
        retries: int = 1,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder = folder.absolute()
        """Where the folders of jobs are."""
        self._listen = listen
        self._retries = retries
        self._should_stop = should_stop
        self._names: set[str] = set()
        self._waiting: deque[Job] = deque()
        self._events: deque[JobEvent] = deque()
        self._attempts: dict[str, int] = {}
        self._begun: Job | None = None
        """The job that is running, or the next to run."""
        self._cancelled: set[str] = set()

    def submit(self, job: Job) -> None:
        """Queue a job; returns at once.

        Raises:
            BriskError: A job of this name was submitted before.
        """
        check_name(job.name)
        if job.name in self._names:
            raise BriskError(f"A job of the name {job.name} was submitted before.")
        self._names.add(job.name)
        self._waiting.append(job)

    def wait(self, timeout_s: float | None = None) -> JobEvent | None:
        """The next event of any job; runs a job if there is none. None if no job is left."""
        if not self._events:
            if self._begun is not None:
                self._run(self._begun)
            elif self._waiting:
                self._begin(self._waiting.popleft())
        return self._events.popleft() if self._events else None

    def cancel(self, name: str) -> None:
        """Ask a job to save and stop; no effect on one that has ended."""
        for job in list(self._waiting):
            if job.name == name:
                self._waiting.remove(job)
                self._events.append(JobCancelled(name))
        if self._begun is not None and self._begun.name == name:
            self._cancelled.add(name)

    def close(self) -> None:
        """Forget the jobs that have not run."""
        self._waiting.clear()
        self._begun = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self, job: Job) -> None:
        self._begun = job
        self._attempts[job.name] = self._attempts.get(job.name, 0) + 1
        self._events.append(JobStarted(job.name, self._attempts[job.name], "this process"))

    def _run(self, job: Job) -> None:
        name = job.name

        def report(values: Mapping[str, JSON]) -> None:
            if values:
                self._listen(JobProgress(name, plain(values)))

        try:
            if name in self._cancelled:
                raise JobStopped
            folder = self.folder / name
            with storage_errors(f"write the folder of the job, {folder}"):
                make_folder(folder)
            context = JobContext(folder, report, should_stop=lambda: self._is_to_stop(name))
            self._events.append(JobDone(name, plain(job.run(context))))
        except JobStopped:
            self._events.append(JobCancelled(name))
        except BriskError as error:
            self._events.append(JobFailed(name, str(error)))
        except Exception as error:
            _log.exception("%s failed", name)
            self._fail(job, f"{type(error).__name__}: {error}")
        finally:
            self._begun = None

    def _is_to_stop(self, name: str) -> bool:
        return name in self._cancelled or self._should_stop()

    def _fail(self, job: Job, cause: str) -> None:
        if self._attempts[job.name] > self._retries:
            self._events.append(JobFailed(job.name, cause))
        else:
            self._events.append(JobRetried(job.name, cause))
            self._waiting.appendleft(job)
