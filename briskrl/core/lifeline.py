"""Ends a worker process with its parent, however the parent ends.

A worker calls it before it imports anything large: the parent may be killed while its workers are
still starting.
"""

from __future__ import annotations

import os
import select
import signal
import threading


def end_with(lifeline: int) -> None:
    """End this process as soon as the other end of the pipe is closed.

    If it leads a process group, the others of the group end, too: processes that it has forked.
    """
    try:
        import fcntl

        # The operating system kills the process even if it loops, sleeps or is inside a library.
        # A negative owner is a group.
        owner = -os.getpid() if os.getpgrp() == os.getpid() else os.getpid()
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, owner)
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
