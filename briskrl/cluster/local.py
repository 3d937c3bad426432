"""Runs jobs in worker processes of this machine; opens no port.

Workers are started when they are needed and run many jobs each, because importing torch takes
seconds. A process runs one job at a time, so whatever ends it costs that job one attempt only.
"""

from __future__ import annotations

import pickle
import selectors
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

from briskrl import __version__
from briskrl.cluster.job import (
    Job,
    JobCancelled,
    JobDone,
    JobEvent,
    JobFailed,
    JobProgress,
    JobRetried,
    JobStarted,
)
from briskrl.cluster.job_folder import check_name
from briskrl.cluster.messages import Begun, Order, Outcome, Raised, Reported, Returned, Stopped
from briskrl.cluster.resources import Grant, Resources
from briskrl.cluster.storage import Store
from briskrl.cluster.worker_process import StartProcess, WorkerProcess, start_job_process
from briskrl.core.child_process import thread_limits
from briskrl.core.errors import BriskError, StorageError
from briskrl.core.format import format_duration

CANCEL_S = 60.0
"""How long a cancelled job may take to save before it is killed."""


@dataclass(eq=False)
class Task:
    """A job that has not ended yet."""

    order: Order
    num_cpus: int
    num_gpus: float
    attempts: int = 0
    """Attempts that have begun."""
    grant: Grant | None = None
    """Cores and GPUs of the attempt under way."""
    process: WorkerProcess | None = None
    begun: bool = False
    """Whether the process has begun this attempt, and SIGTERM lets it save."""
    cancelled: bool = False
    deadline: float | None = None
    """When the process is killed unless something is heard of it."""

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.order.name


class LocalExecutor:
    """Runs jobs in reused worker processes, which are on this machine unless asked for.

    Args:
        folder: Where the folders of jobs are.
        slots: Cores for jobs. A job takes as many as it has `num_cpus`, and all of them if there
            are fewer.
        gpus: Names of the GPUs; those that this process sees if absent.
        start_process: Where else to start processes.
        store: Where to keep copies of the folders of jobs, if not only here.
        retries: How often a job is started again after it was lost.
        job_timeout_s: Longest time without a report of a job; None waits forever.
        cancel_s: How long a cancelled job may take to save.
    """

    def __init__(
        self,
        folder: Path,
        *,
        slots: int,
        gpus: Sequence[str] | None = None,
        start_process: StartProcess = start_job_process,
        store: Store | None = None,
        retries: int = 3,
        job_timeout_s: float | None = None,
        cancel_s: float = CANCEL_S,
    ) -> None:
        self.folder = folder.absolute()
        """Where the folders of jobs are."""
        self._store = store
        self._resources = Resources(slots, gpus)
        self._start_process = start_process
        self._retries = retries
        self._timeout_s = job_timeout_s
        self._cancel_s = cancel_s
        self._names: set[str] = set()
        self._tasks: dict[str, Task] = {}
        self._waiting: deque[Task] = deque()
        self._events: deque[JobEvent] = deque()
        self._idle: list[WorkerProcess] = []
        self._selector = selectors.DefaultSelector()
        self._number = 0
        self._closed = False

    @property
    def slots(self) -> int:
        """Jobs of one core that run at the same time."""
        return self._resources.cores

    def submit(self, job: Job) -> None:
        """Queue a job; returns at once.

        Raises:
            BriskError: A job of this name was submitted before, it cannot be pickled, or it needs
                more GPUs than there are.
        """
        check_name(job.name)
        if self._closed:
            raise BriskError(f"The executor is closed; the job {job.name} cannot be run.")
        if job.name in self._names:
            raise BriskError(f"A job of the name {job.name} was submitted before.")
        self._resources.check(job.name, job.num_gpus)
        folder = str(self.folder / job.name)
        order = Order(__version__, _pickled(job), job.name, folder, self._store)
        self._names.add(job.name)
        task = Task(order, job.num_cpus, job.num_gpus)
        self._tasks[job.name] = task
        self._waiting.append(task)
        self._start_waiting()

    def wait(self, timeout_s: float | None = None) -> JobEvent | None:
        """The next event of any job; None after the timeout, or if no job is left."""
        end = None if timeout_s is None else monotonic() + timeout_s
        while not self._events and self._tasks:
            self._step(end)
            if end is not None and monotonic() >= end:
                break
        return self._events.popleft() if self._events else None

    def cancel(self, name: str) -> None:
        """Ask a job to save and stop; no effect on one that has ended."""
        task = self._tasks.get(name)
        if task is None or task.cancelled:
            return
        task.cancelled = True
        if task.process is None:
            self._waiting.remove(task)
            self._end(task, JobCancelled(name))
        elif not task.process.is_placed:
            self._lose(task, "it was cancelled")
        else:
            task.deadline = monotonic() + self._cancel_s
            if task.begun:
                task.process.ask_to_stop()

    def close(self) -> None:
        """Cancel what is left, let it save, and end all processes; may be called twice."""
        self._closed = True
        for name in list(self._tasks):
            self.cancel(name)
        try:
            while self._tasks:
                self._step(None)
        finally:
            # Reached with tasks left only if a second signal interrupts the waiting.
            for task in list(self._tasks.values()):
                self._release(task, reusable=False)
                self._end(task, JobCancelled(task.name))
            for process in self._idle:
                process.end()
            self._idle.clear()
            self._selector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _step(self, end: float | None) -> None:
        """Wait until something happens, at most until `end`, and handle it."""
        ends = [task.deadline for task in self._tasks.values() if task.deadline is not None]
        first = min([*ends, *([] if end is None else [end])], default=None)
        timeout = None if first is None else max(0.0, first - monotonic())
        for key, _ in self._selector.select(timeout):
            self._receive(key.data)
        for task in list(self._tasks.values()):
            # After receiving: reports may have waited while this process did something else.
            if task.deadline is not None and monotonic() >= task.deadline:
                self._expire(task)
        self._start_waiting()

    def _start_waiting(self) -> None:
        """Start the jobs at the front of the queue for which there are free slots."""
        while self._waiting:
            task = self._waiting[0]
            task.grant = self._resources.take(task.num_cpus, task.num_gpus)
            if task.grant is None:
                # Smaller ones behind it have to wait, too, or it might never start.
                return
            self._waiting.popleft()
            self._start(task)

    def _start(self, task: Task) -> None:
        task.attempts += 1
        task.begun = False
        self._number += 1
        task.order = replace(task.order, number=self._number)
        try:
            task.process = self._take_process(task)
            task.process.send(task.order)
        except StorageError as error:
            self._release(task, reusable=False)
            self._end(task, JobFailed(task.name, str(error)))
            return
        except OSError as error:
            self._lose(task, f"its process could not be started ({error})")
            return
        self._selector.register(task.process.socket, selectors.EVENT_READ, task)
        self._expect_report(task)

    def _take_process(self, task: Task) -> WorkerProcess:
        """An idle process that can run the job, or a new one."""
        assert task.grant is not None
        environment = thread_limits(task.num_cpus) | task.grant.environment()
        for process in list(self._idle):
            if process.has_ended or process.environment == environment:
                self._idle.remove(process)
                if not process.has_ended:
                    return process
                process.end()
        # One that cannot run it would only hold memory.
        if self._idle:
            self._idle.pop().end()
        return self._start_process(environment, task.grant, Path(task.order.folder))

    def _expect_report(self, task: Task) -> None:
        placed = task.process is not None and task.process.is_placed
        if self._timeout_s is not None and not task.cancelled and placed:
            task.deadline = monotonic() + self._timeout_s

    def _receive(self, task: Task) -> None:
        assert task.process is not None
        messages = task.process.receive()
        if messages is None:
            self._lose(task, f"its process {task.process.describe_end()}")
            return
        for message in messages:
            # A thread that an earlier job has left behind may still report.
            if task.process is not None and message.number == task.order.number:
                self._handle(task, message.content)

    def _handle(self, task: Task, content: Begun | Reported | Outcome) -> None:
        self._expect_report(task)
        name = task.name
        match content:
            case Begun(node):
                task.begun = True
                self._events.append(JobStarted(name, task.attempts, node))
                if task.cancelled and task.process is not None:
                    task.process.ask_to_stop()
            case Reported(values):
                if values:
                    self._events.append(JobProgress(name, values))
            case Returned(result):
                # A signal that was sent when the job had ended would stop the next one.
                self._release(task, reusable=not task.cancelled)
                self._end(task, JobDone(name, result))
            case Raised(cause, hopeless=True):
                self._release(task, reusable=not task.cancelled)
                self._end(task, JobFailed(name, cause))
            case Raised(cause):
                self._lose(task, cause)
            case Stopped(clean) if task.cancelled:
                self._release(task, reusable=clean)
                self._end(task, JobCancelled(name))
            case _:
                self._lose(task, "its process was stopped by SIGTERM")

    def _expire(self, task: Task) -> None:
        """Kill the process of a job that does not report, or does not stop."""
        self._lose(task, f"it reported nothing for {format_duration(self._timeout_s or 0)}")

    def _lose(self, task: Task, cause: str) -> None:
        """An attempt has ended without a result: queue another one, if there may be one."""
        self._release(task, reusable=False)
        if task.cancelled:
            self._end(task, JobCancelled(task.name))
        elif task.attempts > self._retries:
            self._end(task, JobFailed(task.name, cause))
        else:
            self._events.append(JobRetried(task.name, cause))
            self._waiting.appendleft(task)

    def _release(self, task: Task, *, reusable: bool) -> None:
        """Take the process from a job, and keep it or end it."""
        if task.grant is not None:
            self._resources.give_back(task.grant)
            task.grant = None
        task.deadline = None
        process, task.process = task.process, None
        if process is None:
            return
        if process.socket.fileno() in self._selector.get_map():
            self._selector.unregister(process.socket)
        if reusable and not self._closed:
            self._idle.append(process)
        else:
            process.end()

    def _end(self, task: Task, event: JobEvent) -> None:
        del self._tasks[task.name]
        self._events.append(event)


def _pickled(job: Job) -> bytes:
    try:
        return pickle.dumps(job)
    except Exception as error:
        raise BriskError(f"The job {job.name} cannot be pickled: {error}") from error
