"""Waiting for a number that another thread is about to raise.

Whoever waits offers its core to others at every look, so that on a machine without a core to spare
nobody takes time from those who work; after many looks it sleeps.
"""

from __future__ import annotations

from briskrl.intrinsics import look
from briskrl.jit import kernel, sched_yield, usleep

PATIENCE, NAP_US = 2000, 50
"""Looks before naps, and how long those are."""


@kernel
def appears(board, at, number, patience):
    """Whether board[at] reaches a number within so many looks."""
    looks = 0
    while look(board, at) < number:
        if looks >= patience:
            return False
        looks += 1
        sched_yield()
    return True


@kernel
def wait_for(board, at, number):
    """Return when board[at] has reached a number."""
    looks = 0
    while look(board, at) < number:
        looks += 1
        if looks < PATIENCE:
            sched_yield()
        else:
            usleep(NAP_US)
