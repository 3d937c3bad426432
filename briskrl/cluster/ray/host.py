"""What runs on the nodes: an actor that hosts one worker process of the local kind.

A job needs a process with a main thread of its own, for signals; that of an actor is Ray's. The
actor holds the cores and GPUs of its worker, which ends with it.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import sleep

from briskrl.cluster.messages import Order, Raised, Reply
from briskrl.cluster.mirror import Mirror
from briskrl.cluster.ray.relay import Relay, StoreAnswer, StoreCall
from briskrl.cluster.worker_process import JobProcess
from briskrl.core.errors import StorageError

METHODS_AT_ONCE = 4
"""Of the actor: one waits for messages, the others are short."""
_FOLDERS = f"briskrl-jobs-{os.getuid()}"
_LOCK = "lock"
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What an actor needs to know about its worker."""

    environment: Mapping[str, str]
    """Environment variables of the worker."""
    paths: tuple[str, ...]
    """Where the driver imports its own modules from; used if they are here, too."""
    scratch: bool
    """Whether jobs work in a temporary folder, because the driver's may not be here."""
    relay: bool
    """Whether copies of their folders go through Ray."""


@dataclass(frozen=True, slots=True)
class Placed:
    """From a host: it has started, on this node."""

    node: str


@dataclass(frozen=True, slots=True)
class Ended:
    """From a host: its worker has ended."""

    how: str
    """A clause, such as "was killed by SIGKILL"."""


HostMessage = Placed | Reply | StoreCall | Ended


class JobHost:
    """Hosts a worker process; the methods are called through Ray."""

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings
        self._messages: SimpleQueue[HostMessage] = SimpleQueue()
        self._answers: SimpleQueue[StoreAnswer] = SimpleQueue()
        self._process: JobProcess | None = None
        self._order: Order | None = None
        self._folder = _make_folder()
        self._relay = Relay(self._folder / "relay", self._ask) if settings.relay else None
        sys.path += [path for path in settings.paths if path not in sys.path]
        Thread(target=_exit_with_node, args=(os.getppid(),), daemon=True).start()
        self._messages.put(Placed(socket.gethostname()))

    def run(self, order: Order) -> None:
        """Let the worker run a job."""
        if self._settings.scratch:
            order = replace(order, folder=str(self._folder / "jobs" / order.name))
        if self._relay is not None:
            order = replace(order, store=self._relay.store)
        self._order = order
        try:
            if self._process is None:
                self._process = self._start_process()
            self._process.send(order)
        except StorageError as error:
            self._messages.put(Reply(order.number, Raised(str(error), hopeless=True)))
        except OSError as error:
            self._messages.put(Ended(f"could not be started ({error})"))

    def receive(self) -> list[HostMessage]:
        """Messages for the driver; waits until there is one."""
        messages = [self._messages.get()]
        while not self._messages.empty():
            messages.append(self._messages.get())
        return messages

    def say_cut_off(self) -> list[HostMessage]:
        """For a driver to which messages may have been lost: the last one."""
        return [Ended("was cut off from the driver")]

    def answer(self, answer: StoreAnswer) -> None:
        """What the last StoreCall has returned."""
        self._answers.put(answer)

    def ask_to_stop(self) -> None:
        """Ask the job to save and stop."""
        if self._process is not None:
            self._process.ask_to_stop()

    def end(self) -> None:
        """End the worker, and wait until it is gone."""
        if self._process is not None:
            self._process.end()
        if self._relay is not None:
            self._relay.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_process(self) -> JobProcess:
        with (self._folder / "worker.log").open("ab") as log:
            process = JobProcess(self._settings.environment, output=log.fileno())
        Thread(target=self._forward, args=(process,), name="briskrl-worker", daemon=True).start()
        return process

    def _forward(self, process: JobProcess) -> None:
        """Forward what the worker sends until it has ended."""
        try:
            while (replies := _wait(process)) is not None:
                for reply in replies:
                    self._messages.put(reply)
            how = process.describe_end()
            self._copy_log()
        except OSError as error:
            how = f"cannot be heard any more ({error})"
        self._messages.put(Ended(how))

    def _copy_log(self) -> None:
        """Copy the log of a job that had no time to do it."""
        order = self._order
        if order is not None and order.store is not None:
            Mirror(order.store, order.name, Path(order.folder)).publish_log()

    def _ask(self, call: StoreCall) -> StoreAnswer:
        """Pass a call to the driver; the relay has one at a time."""
        self._messages.put(call)
        return self._answers.get()


def _wait(process: JobProcess) -> list[Reply] | None:
    select.select([process.socket], [], [])
    return process.receive()


def _exit_with_node(raylet: int) -> None:
    """Exit when the node's Ray has gone: nothing could reach this process to end it."""
    while os.getppid() == raylet:
        sleep(_LOOK_S)
    os._exit(1)


def _make_folder() -> Path:
    """A folder for this process and user only; removes those of processes that were killed.

    Raises:
        PermissionError: The folder above it belongs to somebody else.
    """
    above = Path(tempfile.gettempdir(), _FOLDERS)
    above.mkdir(mode=0o700, exist_ok=True)
    if above.is_symlink() or above.stat().st_uid != os.getuid():
        raise PermissionError(f"{above} belongs to another user.")
    with (above / _LOCK).open("w") as only_one:
        fcntl.flock(only_one, fcntl.LOCK_EX)
        for left in above.glob(f"*/{_LOCK}"):
            with suppress(OSError), left.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left.parent, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=above))
        # Stays open, and so locked, until the process ends.
        descriptor = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return folder
