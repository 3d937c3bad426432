"""The loop of a thread that does compiled work whenever another one asks for it."""

from __future__ import annotations

import time

from briskrl.compiler.atomics import (
    atomic_load,
    atomic_store,
    clock_gettime,
    compare_exchange,
    yield_core,
)
from briskrl.compiler.jit import helper, kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import call_address

STATE, WORK, SUBJECT, NUMBER, NEXT, NEXT_WORK, NEXT_SUBJECT = range(7)
"""Places on the board that are written by who asks: what the other thread is to do, the addresses
of what to call and of what to call it with, and with which number; the same of what was announced,
after its number."""

SERVED, SEEN, TOOK_NS, AHEAD_NS, TIME, BOARD_SIZE = 8, 9, 10, 11, 12, 16
"""Places that are written by who serves: how many requests were served, the last announcement that
was looked into, for how long the last request has computed and for how long what was done of it
beforehand, and two numbers for the system's time."""

CLOSED, WAITING, ASKED, AT_WORK = range(4)
"""STATE: nobody serves, waits for a request, has one to begin with, is at it."""

THREAD_CLOCK = time.CLOCK_THREAD_CPUTIME_ID


@kernel
def worker_loop(board, patience):
    """Call work(subject, number) whenever that is asked for.

    While nothing is asked for, work(subject, number) is called for what was announced under that
    number, to begin with it.

    Returns after so many looks for a request in vain, or when the core is lost meanwhile.
    """
    control = flush_denormals()
    looks, ahead_ns = 0, 0
    while True:
        state, announced = atomic_load(board, STATE), atomic_load(board, NEXT)
        if state == ASKED:
            # Fails if the request was taken back.
            if not compare_exchange(board, STATE, ASKED, AT_WORK):
                continue
            # Too late to begin with it, should nobody have looked yet.
            board[SEEN] = announced
            board[TOOK_NS] = _call(board, WORK, board[NUMBER])
            board[AHEAD_NS] = ahead_ns
            looks, ahead_ns = 0, 0
            # Whoever sees the request served may make the next one.
            atomic_store(board, STATE, WAITING)
            atomic_store(board, SERVED, board[SERVED] + 1)
        elif state == CLOSED:
            break
        elif announced > board[SEEN]:
            board[SEEN] = announced
            ahead_ns += _call(board, NEXT_WORK, announced)
        elif looks < patience:
            looks = patience if yield_core() else looks + 1
        else:
            # Fails if there is a request after all.
            compare_exchange(board, STATE, WAITING, CLOSED)
    restore_denormals(control)


@helper
def _call(board, at, number):
    """Do the work whose addresses are on the board; returns for how long it has computed."""
    begin = _computed_ns(board)
    call_address(board[at], board[at + 1], number)
    return _computed_ns(board) - begin


@helper
def _computed_ns(board):
    """Nanoseconds for which this thread has computed in its life."""
    clock_gettime(THREAD_CLOCK, board[TIME:].ctypes.data)
    return board[TIME] * 1_000_000_000 + board[TIME + 1]


@kernel
def submit(board, work, subject, number):
    """Ask for work(subject, number); whether somebody serves."""
    board[WORK], board[SUBJECT], board[NUMBER] = work, subject, number
    return compare_exchange(board, STATE, WAITING, ASKED)


@kernel
def cancel(board):
    """Ask no longer; whether nobody had begun."""
    return compare_exchange(board, STATE, ASKED, WAITING)


@kernel
def prefetch(board, work, subject, number):
    """Tell that work(subject, 0) will be asked for next."""
    board[NEXT_WORK], board[NEXT_SUBJECT] = work, subject
    atomic_store(board, NEXT, number)


@kernel
def close(board):
    """Have whoever waits for a request return."""
    compare_exchange(board, STATE, WAITING, CLOSED)
