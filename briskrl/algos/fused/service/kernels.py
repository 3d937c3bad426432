"""The loop of a thread that does updates whenever another one asks for them."""

from __future__ import annotations

import time

from briskrl.algos.fused.values.kernels import do_updates
from briskrl.fused.intrinsics import flush_denormals, restore_denormals
from briskrl.intrinsics import exchange_if, look, offer_core, opened, publish
from briskrl.jit import clock_gettime, helper, kernel

STATE, WHICH, SERVED, TOOK_NS, TIME, BOARD_SIZE = 0, 1, 8, 9, 10, 16
"""Places on the board where the two threads meet: what the serving one does, which of its tasks is
asked for, how many requests were served, how long the last one has computed, and two numbers that
the system writes its time into. Who asks writes the first two, who serves the others."""

CLOSED, WAITING, ASKED = range(3)
"""STATE: nobody serves, waits for a request, has one."""

THREAD_CLOCK = time.CLOCK_THREAD_CPUTIME_ID


@kernel
def serve(first, second, board, patience):
    """Do the updates of one of two tasks, which are held, whenever that is asked for.

    Returns after so many looks for a request in vain, or when the core is lost meanwhile.
    """
    control = flush_denormals()
    looks = 0
    while True:
        state = look(board, STATE)
        if state == ASKED:
            begin = _computed_ns(board)
            do_updates(opened(first if board[WHICH] == 0 else second))
            board[TOOK_NS] = _computed_ns(board) - begin
            looks = 0
            # Whoever sees the request served may make the next one.
            publish(board, STATE, WAITING)
            publish(board, SERVED, board[SERVED] + 1)
        elif state == CLOSED:
            break
        elif looks < patience:
            looks = patience if offer_core() else looks + 1
        else:
            # Fails if there is a request after all.
            exchange_if(board, STATE, WAITING, CLOSED)
    restore_denormals(control)


@helper
def _computed_ns(board):
    """Nanoseconds for which this thread has computed in its life."""
    clock_gettime(THREAD_CLOCK, board[TIME:].ctypes.data)
    return board[TIME] * 1_000_000_000 + board[TIME + 1]


@kernel
def ask(board, which):
    """Ask for the updates of the first task, 0, or the second, 1; whether somebody serves."""
    board[WHICH] = which
    return exchange_if(board, STATE, WAITING, ASKED)


@kernel
def close(board):
    """Have whoever waits for a request return."""
    exchange_if(board, STATE, WAITING, CLOSED)
