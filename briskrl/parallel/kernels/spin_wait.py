"""Waiting for a number that another thread is about to raise.

Whoever waits offers its core to others at every look, so that on a machine without a core to spare
nobody takes time from those who work, and sleeps once somebody has taken it.
"""

from __future__ import annotations

from briskrl.compiler.atomics import atomic_load, atomic_store, usleep, yield_core
from briskrl.compiler.jit import kernel

PATIENCE, NAP_US = 8000, 50
"""Looks before naps, and how long those are."""


@kernel
def report(board, at, number, next_at, patience):
    """Raise board[at] to a number; whether board[next_at] passes that within so many looks.

    And before the core is lost. Who waits for the report finds the interpreter free: a thread that
    reported by itself and then let go of the interpreter would have put it to sleep in between.
    """
    atomic_store(board, at, number)
    looks = 0
    while atomic_load(board, next_at) <= number:
        if looks >= patience:
            return False
        looks = patience if yield_core() else looks + 1
    return True


@kernel
def hand_over(board, at, number, answer_at, patience):
    """Raise board[at] to a number, and give board[answer_at] so many looks to follow."""
    atomic_store(board, at, number)
    looks = 0
    while atomic_load(board, answer_at) < number and looks < patience:
        looks = patience if yield_core() else looks + 1


@kernel
def wait_for(board, at, number):
    """Return when board[at] has reached a number."""
    looks = 0
    while atomic_load(board, at) < number:
        if looks < PATIENCE:
            looks = PATIENCE if yield_core() else looks + 1
        else:
            usleep(NAP_US)
