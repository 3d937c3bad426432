"""What an executor runs: a job, the context it runs in, and the events that it causes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from briskrl.core.types import JSON


class JobStopped(KeyboardInterrupt):
    """A job was asked to stop by SIGTERM and has stopped; what it had done is saved."""


def nothing_to_publish() -> None:
    """Do nothing; for jobs whose folder is in the storage."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """What a job gets from the process that runs it."""

    folder: Path
    """Folder of the job. If an earlier attempt was lost, its files are here, and the job continues
    from them."""
    report: Callable[[Mapping[str, JSON]], None]
    """Sends progress to the driver; any call counts as a sign of life. Without values it is nothing
    more than that, and no event."""
    publish: Callable[[], None] = nothing_to_publish
    """Copies the folder to the storage if it is elsewhere; to be called after saving something
    that another attempt should continue from."""
    should_stop: Callable[[], bool] | None = None
    """Whether a job in the process of the driver was asked to save and stop; None in a process of
    its own, which gets SIGTERM instead."""


class Job(Protocol):
    """Work for one process.

    Implementations are frozen dataclasses: they can be pickled and hold no open files. The result
    depends on the content of the job alone, not on the executor, the attempt or the machine.
    """

    @property
    def name(self) -> str:
        """Unique among the jobs of an executor, and the name of the job's folder."""
        ...

    @property
    def num_cpus(self) -> int:
        """Cores that the job keeps busy."""
        ...

    @property
    def num_gpus(self) -> float:
        """GPUs that the job needs."""
        ...

    def run(self, context: JobContext) -> dict[str, JSON]:
        """Do the work, or continue it, and return the result.

        SIGTERM asks it to save and stop. A job that has no handler of its own for SIGTERM is
        stopped by a JobStopped, raised wherever it is.

        Raises:
            BriskError: The job cannot succeed; another attempt would fail, too.
            JobStopped: It was asked to stop; another attempt would continue.
        """
        ...


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A process has begun an attempt of the job."""

    name: str
    attempt: int
    """1 for the first one."""
    node: str
    """Host name of the process."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """What the job has reported last."""

    name: str
    values: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class JobRetried:
    """An attempt was lost (crash, kill, out of memory, hang); another one follows."""

    name: str
    cause: str


@dataclass(frozen=True, slots=True)
class JobDone:
    """The job has returned its result."""

    name: str
    result: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class JobFailed:
    """The job raised an error, or its last attempt was lost."""

    name: str
    cause: str


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """The job was cancelled; a run under way has saved a checkpoint."""

    name: str


JobEvent = JobStarted | JobProgress | JobRetried | JobDone | JobFailed | JobCancelled
JobEnd = JobDone | JobFailed | JobCancelled
"""Exactly one of these follows every submitted job, and it is the last event of that job."""
