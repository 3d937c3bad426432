"""The loop of a thread that runs compiled work whenever another thread requests it."""

from __future__ import annotations

import time

from briskrl.compiler.atomics import atomic_load, atomic_store, clock_gettime, compare_exchange
from briskrl.compiler.jit import helper, kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import call_address
from briskrl.parallel.kernels.spin_wait import spin

STATE, WORK, ARGS, NUMBER, PREFETCH, PREFETCH_WORK, PREFETCH_ARGS = range(7)
"""Indices into the mailbox that the requesting thread writes: the state, the addresses of a kernel
and of its packed arguments, and the number that it is called with; the number of the last
`prefetch`, and its addresses."""

SERVED, SEEN, TOOK_NS, AHEAD_NS, TIME, MAILBOX_SIZE = 8, 9, 10, 11, 12, 16
"""Indices that the worker writes: how many requests are done, the last prefetch that it has begun,
the CPU time of the last request and of what was prefetched for it, two numbers for the clock."""

CLOSED, WAITING, REQUESTED, RUNNING = range(4)
"""STATE: nobody is in the loop, waits for a request, has one to begin with, is at it."""

THREAD_CLOCK = time.CLOCK_THREAD_CPUTIME_ID


@kernel
def worker_loop(mailbox, patience):
    """Call work(args, number) at every request.

    While there is no request, call it for the last `prefetch`, with the number of that.

    Returns after `patience` looks that found nothing, or when another thread takes the core.
    """
    control = flush_denormals()
    looks, ahead_ns = 0, 0
    while True:
        state, prefetch_number = atomic_load(mailbox, STATE), atomic_load(mailbox, PREFETCH)
        if state == REQUESTED:
            # Fails if the request was canceled.
            if not compare_exchange(mailbox, STATE, REQUESTED, RUNNING):
                continue
            # A prefetch that has not begun by now is of no use.
            mailbox[SEEN] = prefetch_number
            mailbox[TOOK_NS] = _call(mailbox, WORK, mailbox[NUMBER])
            mailbox[AHEAD_NS] = ahead_ns
            looks, ahead_ns = 0, 0
            # A thread that sees SERVED may make the next request.
            atomic_store(mailbox, STATE, WAITING)
            atomic_store(mailbox, SERVED, mailbox[SERVED] + 1)
        elif state == CLOSED:
            break
        elif prefetch_number > mailbox[SEEN]:
            mailbox[SEEN] = prefetch_number
            ahead_ns += _call(mailbox, PREFETCH_WORK, prefetch_number)
        elif looks < patience:
            looks = spin(looks, patience)
        else:
            # Fails if there is a request after all.
            compare_exchange(mailbox, STATE, WAITING, CLOSED)
    restore_denormals(control)


@helper
def _call(mailbox, index, number):
    """Call the kernel whose addresses begin at an index; returns its CPU time in nanoseconds."""
    begin = _cpu_time_ns(mailbox)
    call_address(mailbox[index], mailbox[index + 1], number)
    return _cpu_time_ns(mailbox) - begin


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
def prefetch(mailbox, work, args, number):
    """Announce that work(args, 0) will be requested next."""
    mailbox[PREFETCH_WORK], mailbox[PREFETCH_ARGS] = work, args
    atomic_store(mailbox, PREFETCH, number)


@kernel
def close(mailbox):
    """Make the loop return if it waits for a request."""
    compare_exchange(mailbox, STATE, WAITING, CLOSED)
