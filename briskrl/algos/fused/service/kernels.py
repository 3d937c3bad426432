"""The loop of a thread that does updates whenever another one asks for them."""

from __future__ import annotations

import time

from briskrl.algos.fused.values.kernels import ANNOUNCED, do_updates, learn, take_step
from briskrl.fused.intrinsics import flush_denormals, restore_denormals
from briskrl.intrinsics import exchange_if, look, offer_core, opened, publish
from briskrl.jit import clock_gettime, helper, kernel

(
    STATE,
    WHICH,
    NEXT,
    NEXT_WHICH,
    SERVED,
    AHEAD,
    TOOK_NS,
    AHEAD_NS,
    TIME,
    BOARD_SIZE,
) = (0, 1, 2, 3, 8, 9, 10, 11, 12, 16)
"""Places on the board where the two threads meet. Who asks writes: what the other thread is to do,
for which of its tasks, the number of the last announcement, and of which task it was. Who serves
writes: how many requests were served, the last announcement that was looked into, how long the last
request and what was done of it beforehand have computed, and two numbers for the system's time."""

CLOSED, WAITING, ASKED = range(3)
"""STATE: nobody serves, waits for a request, has one."""

THREAD_CLOCK = time.CLOCK_THREAD_CPUTIME_ID


@kernel
def serve(first, second, board, patience):
    """Do the updates of one of two tasks, which are held, whenever that is asked for.

    A task that was announced is begun while nothing is asked for: its first gradient is computed,
    and changes nothing until the request comes.

    Returns after so many looks for a request in vain, or when the core is lost meanwhile.
    """
    control = flush_denormals()
    looks, ahead_ns = 0, 0
    while True:
        state = look(board, STATE)
        announced = look(board, NEXT)
        if state == ASKED:
            begin = _computed_ns(board)
            _finish(opened(first if board[WHICH] == 0 else second), board)
            board[TOOK_NS], board[AHEAD_NS] = _computed_ns(board) - begin, ahead_ns
            looks, ahead_ns = 0, 0
            # Whoever sees the request served may make the next one.
            publish(board, STATE, WAITING)
            publish(board, SERVED, board[SERVED] + 1)
        elif state == CLOSED:
            break
        elif announced > board[AHEAD]:
            begin = _computed_ns(board)
            learn(opened(first if board[NEXT_WHICH] == 0 else second), 0)
            ahead_ns += _computed_ns(board) - begin
            board[AHEAD] = announced
        elif looks < patience:
            looks = patience if offer_core() else looks + 1
        else:
            # Fails if there is a request after all.
            exchange_if(board, STATE, WAITING, CLOSED)
    restore_denormals(control)


@helper
def _finish(task, board):
    """Do the updates of a task, of which the first may have been begun."""
    lesson = task.lesson
    announced = lesson.rules[ANNOUNCED]
    begun = 0 < announced == board[AHEAD]
    if begun:
        take_step(lesson, lesson.whole, 0, 0)
    else:
        # Too late for it, should nobody have looked yet.
        board[AHEAD] = max(board[AHEAD], announced)
    do_updates(task, 1 if begun else 0)


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
def announce(board, which, number):
    """Tell that a task, 0 or 1, will be asked for next."""
    board[NEXT_WHICH] = which
    publish(board, NEXT, number)


@kernel
def close(board):
    """Have whoever waits for a request return."""
    exchange_if(board, STATE, WAITING, CLOSED)
