"""Ends a worker with its trainer, however the trainer ends.

A worker calls it before it imports anything large: the trainer may be killed while its workers are
still starting.
"""

from __future__ import annotations

import os
import select
import signal
import threading


def end_with(lifeline: int) -> None:
    """End this process as soon as the other end of the pipe is closed."""
    try:
        import fcntl

        # The operating system kills the process even if it loops, sleeps or is inside a library.
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, int(signal.SIGKILL))
        flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
    except (ImportError, AttributeError, OSError):
        threading.Thread(target=_wait_for_end, args=(lifeline,), daemon=True).start()
        return
    # The pipe may have been closed before the signal was set up.
    if select.select([lifeline], [], [], 0)[0]:
        os._exit(1)


def _wait_for_end(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)
