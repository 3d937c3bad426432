"""Worker processes that are connected by a socket pair and end with their parent.

They are started as new processes, not forked, because a process with threads (torch has some)
cannot be forked safely. They do not import the program's main module, which may be slow.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress

_STARTUP_CODE = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from briskrl.core.lifeline import end_with; end_with(int(sys.argv[2]));"
    "from importlib import import_module;"
    "import_module(sys.argv[3]).main(*map(int, sys.argv[4:]))"
)

_alive: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


def thread_limits(threads: int) -> dict[str, str]:
    """Environment variables that limit the threads of numerical libraries."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


class ChildProcess:
    """A Python process that runs `main` of a module, and this process's end of the connection.

    Args:
        module: Its function `main` gets the descriptor of its end of the socket pair, and then
            those of `descriptors`.
        descriptors: File descriptors to pass on.
        environment: Environment variables to add to those of this process.
        output: Descriptor for its standard output and error; those of this process if absent.

    Raises:
        OSError: It could not be started.
    """

    def __init__(
        self,
        module: str,
        *,
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str],
        output: int | None = None,
    ) -> None:
        ours, theirs = socket.socketpair()
        # One pipe per process: the operating system signals a single process when a pipe closes.
        lifeline, self._held_end = os.pipe()
        passed = (lifeline, theirs.fileno(), *descriptors)
        first, *rest = map(str, passed)
        command = [sys.executable, "-P", "-c", _STARTUP_CODE]
        command += [json.dumps(sys.path), first, module, *rest]
        with theirs:
            try:
                self.popen = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=passed,
                    env={**os.environ, **environment},
                    # Ctrl-C in the terminal must reach this process only.
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

    def kill(self, wait_s: float = 1.0) -> None:
        """Kill the process and close the connection; may be called twice."""
        self.popen.kill()
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(timeout=wait_s)
        # Should the process survive, closing its pipe ends it.
        self.disconnect()

    def disconnect(self) -> None:
        """Close this end of the socket and the pipe, which ends the process."""
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


def _disconnect_all() -> None:
    for process in list(_alive):
        process.disconnect()


# A process forked from this one must not keep the children alive when this one dies.
os.register_at_fork(after_in_child=_disconnect_all)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
