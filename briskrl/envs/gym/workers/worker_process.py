"""The trainer's side of one worker process: start it, exchange messages, end it.

Workers are started as new processes, not forked, because a process with threads (torch has some)
cannot be forked safely. They do not import the program's main module, which may be slow.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import weakref
from contextlib import suppress
from typing import Any

import gymnasium

from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.workers import protocol
from briskrl.envs.gym.workers.shared_memory import BlockPlan

_STARTUP_CODE = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from briskrl.envs.gym.workers.lifeline import end_with; end_with(int(sys.argv[2]));"
    "from briskrl.envs.gym.workers.worker import main; main(*map(int, sys.argv[3:]))"
)
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
"""Libraries inside workers use one thread each, because the workers already share the cores."""


_alive: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()


class WorkerLost(Exception):  # noqa: N818 - an event that is handled, not an error shown
    """A worker has ended or does not respond."""

    def __init__(self, stuck: bool = False) -> None:
        super().__init__()
        self.stuck = stuck


class WorkerProcess:
    """One worker process."""

    def __init__(self, index: int, *, block: int, wake: int) -> None:
        """Start worker `index`, with descriptors of the block and of the trainer's wake pipe."""
        self.index = index
        ours, theirs = socket.socketpair()
        # One pipe per worker: the operating system signals a single process when a pipe closes.
        lifeline, self._held_end = os.pipe()
        passed = (lifeline, theirs.fileno(), block, wake)
        command = [sys.executable, "-P", "-c", _STARTUP_CODE, json.dumps(sys.path)]
        command += map(str, passed)
        with theirs:
            try:
                self.popen = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    pass_fds=passed,
                    env=os.environ | _ONE_THREAD,
                    # Ctrl-C in the terminal must reach the trainer only.
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                os.close(self._held_end)
                raise
            finally:
                os.close(lifeline)
        self.socket = ours
        _alive.add(self)

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

    def kill(self) -> None:
        """Kill the process and close the connection; may be called twice."""
        self.popen.kill()
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(timeout=1.0)
        # Should the process survive, closing its pipe ends it.
        self.disconnect()

    def disconnect(self) -> None:
        """Close this end of the socket and the pipe, which ends the worker."""
        self.socket.close()
        if self._held_end >= 0:
            os.close(self._held_end)
            self._held_end = -1

    def describe_end(self) -> str:
        """How the process ended, as a clause for messages; waits a moment if it is about to end."""
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(timeout=1.0)
        code = self.popen.returncode
        if code is None:
            return "closed its connection"
        if code < 0:
            return f"was killed by {_signal_name(-code)}"
        return f"exited with code {code}"

    def _send(self, data: bytes, timeout: float) -> None:
        try:
            self.socket.settimeout(timeout)
            self.socket.sendall(data)
        except OSError:
            raise WorkerLost from None

    def _read(self) -> Any:
        return protocol.read_with(self.socket.recv)


def _disconnect_all() -> None:
    for process in list(_alive):
        process.disconnect()


# A process forked from the trainer must not keep workers alive when the trainer dies.
os.register_at_fork(after_in_child=_disconnect_all)


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


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _registration(name: str) -> bytes | None:
    """The entry in Gymnasium's registry, for workers that do not import the registering module."""
    entry = gymnasium.registry.get(name)
    if entry is None or getattr(entry.entry_point, "__module__", None) == "__main__":
        return None
    try:
        return pickle.dumps(entry)
    except Exception:
        return None
