"""The trainer's side of one worker process: start it, exchange messages, end it."""

from __future__ import annotations

import os
import pickle
import subprocess
import time
from contextlib import suppress
from typing import Any

import gymnasium

from briskrl.core.child_process import ChildProcess, thread_limits
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.workers import protocol
from briskrl.envs.gym.workers.shared_memory import BlockPlan


class WorkerLost(Exception):  # noqa: N818 - an event that is handled, not an error shown
    """A worker has ended or does not respond."""

    def __init__(self, stuck: bool = False) -> None:
        super().__init__()
        self.stuck = stuck


class WorkerProcess(ChildProcess):
    """One worker process."""

    def __init__(self, index: int, *, block: int, wake: int) -> None:
        """Start worker `index`, with descriptors of the block and of the trainer's wake pipe."""
        super().__init__(
            "briskrl.envs.gym.workers.worker",
            descriptors=(block, wake),
            # The workers already share the cores.
            environment=thread_limits(1),
        )
        self.index = index

    def send_start(self, factory: EnvFactory, plan: BlockPlan, spin_s: float) -> None:
        """Send the start message; the worker replies True once its environments are made."""
        entry = _registration(factory.id)
        factory = factory.for_worker()
        start = protocol.StartMessage(factory, plan, self.index, entry, spin_s, os.getpid())
        self._send(protocol.pack(start), timeout=60.0)

    def command(self, name: str, *arguments: Any) -> None:
        """Send a call of a method of the worker's `EnvGroup`; `answer` returns the result.

        Raises:
            WorkerLost: The worker has ended.
        """
        self._send(protocol.pack(protocol.Command(name, arguments)), timeout=60.0)

    def wake(self) -> None:
        """Wake the worker up.

        Raises:
            WorkerLost: The worker has ended.
        """
        try:
            # Not through the socket object, which would make an extra system call for the timeout.
            os.write(self.socket.fileno(), protocol.WAKE)
        except OSError:
            raise WorkerLost from None

    def answer(self, timeout: float) -> Any:
        """The next message from the worker, which may be a Failure.

        Raises:
            WorkerLost: The worker has ended, or sent nothing for `timeout` seconds.
        """
        self.socket.settimeout(timeout)
        try:
            return self._read()
        except TimeoutError:
            raise WorkerLost(stuck=True) from None
        except (EOFError, OSError, pickle.UnpicklingError):
            raise WorkerLost from None

    def request_stop(self) -> None:
        """Ask the worker to close its environments and end; ignores a worker that is gone."""
        with suppress(WorkerLost):
            self._send(protocol.pack(protocol.Command("stop")), timeout=0.1)

    def _send(self, data: bytes, timeout: float) -> None:
        try:
            self.socket.settimeout(timeout)
            self.socket.sendall(data)
        except OSError:
            raise WorkerLost from None

    def _read(self) -> Any:
        return protocol.read_with(self.socket.recv)


def stop_all(processes: list[WorkerProcess], grace_s: float) -> None:
    """Stop workers; those that do not end within `grace_s` seconds are killed."""
    for process in processes:
        process.request_stop()
    end = time.monotonic() + grace_s
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.popen.wait(timeout=max(0.0, end - time.monotonic()))
    for process in processes:
        process.popen.kill()
    for process in processes:
        process.kill()


def _registration(name: str) -> bytes | None:
    """The entry in Gymnasium's registry, for workers that do not import the registering module."""
    entry = gymnasium.registry.get(name)
    if entry is None or getattr(entry.entry_point, "__module__", None) == "__main__":
        return None
    try:
        return pickle.dumps(entry)
    except Exception:
        return None
