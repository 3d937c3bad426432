"""The driver's side of worker processes."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from briskrl.cluster.job_folder import open_log
from briskrl.cluster.messages import Inbox, Order, Reply, pack
from briskrl.cluster.resources import Grant
from briskrl.core.child_process import ChildProcess

_SEND_S = 30.0
"""How long a worker may take to accept an order; it has nothing else to do."""
_KILL_S = 10.0
"""How long the operating system may take to end a process, which may be writing to a disk."""


class WorkerProcess(Protocol):
    """A process that runs jobs, on this machine or on another one."""

    environment: Mapping[str, str]
    """Environment variables, which decide what jobs it can run."""
    socket: socket.socket
    """Can be read when there is something to receive."""

    @property
    def is_placed(self) -> bool:
        """Whether it has a machine; until then, it can only wait."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether it cannot take orders any more, as far as is known."""
        ...

    def send(self, order: Order) -> None:
        """Let it run a job.

        Raises:
            OSError: It has ended, or does not accept the order.
        """
        ...

    def receive(self) -> list[Reply] | None:
        """The messages that have arrived; None if it has ended."""
        ...

    def ask_to_stop(self) -> None:
        """Ask the job to save and stop."""
        ...

    def end(self) -> None:
        """Kill the process and wait until it is gone, with its locks."""
        ...

    def describe_end(self) -> str:
        """How the process ended, as a clause for messages."""
        ...


StartProcess = Callable[[Mapping[str, str], Grant, Path], WorkerProcess]
"""Starts a process with these environment variables, for jobs with this grant. The path is the
folder of its first job."""


def start_job_process(environment: Mapping[str, str], grant: Grant, folder: Path) -> JobProcess:
    """Start a process on this machine; what it prints before its first job is in the job's log.

    Raises:
        StorageError: The log cannot be written.
        OSError: It could not be started.
    """
    log = open_log(folder)
    try:
        return JobProcess(environment, output=log)
    finally:
        os.close(log)


class JobProcess(ChildProcess):
    """A worker process of this machine, idle or with a job.

    Args:
        environment: Environment variables, which decide what jobs it can run.
        output: Descriptor for what it prints before its first job.
    """

    def __init__(self, environment: Mapping[str, str], *, output: int) -> None:
        super().__init__("briskrl.cluster.worker", environment=environment, output=output)
        self.environment = environment
        self._inbox = Inbox()

    @property
    def is_placed(self) -> bool:
        """Always."""
        return True

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self.popen.poll() is not None

    def send(self, order: Order) -> None:
        """Let it run a job.

        Raises:
            OSError: It has ended, or does not accept the order.
        """
        self.socket.settimeout(_SEND_S)
        self.socket.sendall(pack(order))
        self.socket.setblocking(False)

    def receive(self) -> list[Reply] | None:
        """The messages that have arrived; None if it has closed the connection."""
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return list(self._inbox.feed(data)) if data else None

    def ask_to_stop(self) -> None:
        """Ask the job to save and stop."""
        self.popen.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """Kill the process and those it has forked; wait until it is gone, with its locks."""
        with suppress(OSError):
            # It leads a group of its own, whose number stays taken as long as there are members.
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.kill(_KILL_S)
