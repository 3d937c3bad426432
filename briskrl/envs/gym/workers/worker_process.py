"""The trainer's end of one worker process: starting it, talking to it, ending it.

Workers are started from scratch and not forked, because a process with threads (torch has some)
cannot be forked safely, and without importing the program's main module, which may be heavy.
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

from briskrl.envs.gym.env_factory import EnvRecipe
from briskrl.envs.gym.workers import protocol as wire
from briskrl.envs.gym.workers.shared_memory import Plan

_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from briskrl.envs.gym.workers.worker import main; main(*map(int, sys.argv[2:]))"
)
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
"""Workers share the cores among themselves; libraries inside them must not do so once more."""


_handles: weakref.WeakSet[Handle] = weakref.WeakSet()


class WorkerLost(Exception):  # noqa: N818 - an event that is handled, not an error shown
    """A worker has ended or does not answer."""

    def __init__(self, stuck: bool = False) -> None:
        super().__init__()
        self.stuck = stuck


class Handle:
    """One worker process."""

    def __init__(self, index: int, *, block: int, wake: int) -> None:
        """Start worker `index` with descriptors of the block and of a pipe to wake the trainer."""
        self.index = index
        ours, theirs = socket.socketpair()
        # One for each worker: the kernel keeps a single address per pipe for news of its end.
        lifeline, self._held_end = os.pipe()
        passed = (theirs.fileno(), block, lifeline, wake)
        with theirs:
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _BOOT, json.dumps(sys.path), *map(str, passed)],
                    stdin=subprocess.DEVNULL,
                    pass_fds=passed,
                    env=os.environ | _ONE_THREAD,
                    # Keys that interrupt the terminal's programs are the trainer's affair.
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                os.close(self._held_end)
                raise
            finally:
                os.close(lifeline)
        self.socket = ours
        _handles.add(self)

    def boot(self, recipe: EnvRecipe, plan: Plan, spin_s: float) -> None:
        """Tell it what to do; it answers True when its environments are made."""
        entry = _registration(recipe.id)
        self._send(
            wire.pack(wire.Boot(recipe, plan, self.index, entry, spin_s, os.getpid())), timeout=60.0
        )

    def command(self, name: str, *arguments: Any) -> None:
        """Ask the worker's host for something; `answer` has what comes back.

        Raises:
            WorkerLost: It has ended.
        """
        self._send(wire.pack(wire.Command(name, arguments)), timeout=60.0)

    def wake(self) -> None:
        """Wake the worker up.

        Raises:
            WorkerLost: It has ended.
        """
        try:
            # Not through the socket object, which would ask the system first whether it may.
            os.write(self.socket.fileno(), wire.WAKE)
        except OSError:
            raise WorkerLost from None

    def answer(self, timeout: float) -> Any:
        """The next message of the worker, a Failure among them.

        Raises:
            WorkerLost: It has ended, or says nothing for `timeout` seconds.
        """
        self.socket.settimeout(timeout)
        try:
            return self._read()
        except TimeoutError:
            raise WorkerLost(stuck=True) from None
        except (EOFError, OSError, pickle.UnpicklingError):
            raise WorkerLost from None

    def request_stop(self) -> None:
        """Ask the worker to close its environments and end; it may be dead or deaf."""
        with suppress(WorkerLost):
            self._send(wire.pack(wire.Command("stop")), timeout=0.1)

    def kill(self) -> None:
        """End the process at once, and forget the socket; may be called twice."""
        self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=1.0)
        # Were the process left in spite of everything, this would end it.
        self.let_go()

    def let_go(self) -> None:
        """Close this end of everything, so that the worker ends if no other process holds it."""
        self.socket.close()
        if self._held_end >= 0:
            os.close(self._held_end)
            self._held_end = -1

    def how_it_ended(self) -> str:
        """A clause for people; waits a moment for a process that is about to end."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=1.0)
        code = self.process.returncode
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
        return wire.read_with(self.socket.recv)


def _let_go_of_all() -> None:
    for handle in list(_handles):
        handle.let_go()


# A process forked from the trainer must not keep workers alive when the trainer dies.
os.register_at_fork(after_in_child=_let_go_of_all)


def stop_all(handles: list[Handle], grace_s: float) -> None:
    """End workers: those that close their environments within the grace by themselves."""
    for handle in handles:
        handle.request_stop()
    end = time.monotonic() + grace_s
    for handle in handles:
        with suppress(subprocess.TimeoutExpired):
            handle.process.wait(timeout=max(0.0, end - time.monotonic()))
    for handle in handles:
        handle.process.kill()
    for handle in handles:
        handle.kill()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _registration(name: str) -> bytes | None:
    """The entry in Gymnasium's table, for workers that have not imported who registered it."""
    entry = gymnasium.registry.get(name)
    if entry is None or getattr(entry.entry_point, "__module__", None) == "__main__":
        return None
    try:
        return pickle.dumps(entry)
    except Exception:
        return None
