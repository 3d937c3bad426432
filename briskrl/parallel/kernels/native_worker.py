"""The loop of a thread that runs compiled work whenever another thread requests it."""

from __future__ import annotations

import time

from briskrl.compiler.atomics import atomic_load, atomic_store, clock_gettime, compare_exchange
from briskrl.compiler.jit import helper, kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import call_address
from briskrl.parallel.kernels.spin_wait import spin

STATE, WORK, ARGS, NUMBER = range(4)
"""Indices into the mailbox that the requesting thread writes: the state, the addresses of a kernel
and of its packed arguments, and the number that it is called with."""

SERVED, TOOK_NS, TIME, MAILBOX_SIZE = 8, 9, 10, 16
"""Indices that the worker writes: how many requests are done, the CPU time of the last one, two
numbers for the clock."""

CLOSED, WAITING, REQUESTED, RUNNING = range(4)
"""STATE: nobody is in the loop, waits for a request, has one to begin with, is at it."""

THREAD_CLOCK = time.CLOCK_THREAD_CPUTIME_ID


@kernel
def worker_loop(mailbox, patience):
    """Call work(args, number) at every request.

    Returns after `patience` looks that found nothing, or when another thread takes the core.
    """
    control = flush_denormals()
    looks = 0
    while True:
        state = atomic_load(mailbox, STATE)
        if state == REQUESTED:
            # Fails if the request was canceled.
            if not compare_exchange(mailbox, STATE, REQUESTED, RUNNING):
                continue
            begin = _cpu_time_ns(mailbox)
            call_address(mailbox[WORK], mailbox[ARGS], mailbox[NUMBER])
            mailbox[TOOK_NS] = _cpu_time_ns(mailbox) - begin
            looks = 0
            # A thread that sees SERVED may make the next request.
            atomic_store(mailbox, STATE, WAITING)
            atomic_store(mailbox, SERVED, mailbox[SERVED] + 1)
        elif state == CLOSED:
            break
        elif looks < patience:
            looks = spin(looks, patience)
        else:
            # Fails if there is a request after all.
            compare_exchange(mailbox, STATE, WAITING, CLOSED)
    restore_denormals(control)


@helper
def _cpu_time_ns(mailbox):
    """CPU time of this thread."""
    clock_gettime(THREAD_CLOCK, mailbox[TIME:].ctypes.data)
    return mailbox[TIME] * 1_000_000_000 + mailbox[TIME + 1]


@kernel
def submit(mailbox, work, args, number):
    """Request work(args, number); returns whether a thread is in the loop."""
    mailbox[WORK], mailbox[ARGS], mailbox[NUMBER] = work, args, number
    return compare_exchange(mailbox, STATE, WAITING, REQUESTED)


@kernel
def cancel(mailbox):
    """Cancel the request; returns whether it had not begun."""
    return compare_exchange(mailbox, STATE, REQUESTED, WAITING)


@kernel
def close(mailbox):
    """Make the loop return if it waits for a request."""
    compare_exchange(mailbox, STATE, WAITING, CLOSED)
