"""Compiled work for the tests of threads, kept apart for the cache of kernels to find it."""

from __future__ import annotations

from briskrl.algos.dqn.kernels.paired_threads import update_cost_model
from briskrl.compiler.atomics import atomic_load, fetch_add, sched_yield, usleep
from briskrl.compiler.jit import kernel
from briskrl.compiler.packed_args import unpack
from briskrl.parallel.kernels.queue import next_part


@kernel
def count(job, member):
    """Count how often every row is seen, and write down who had which part.

    The subject has room for both, and how many microseconds each member naps in a part.
    """
    board, bounds, _, subject = unpack(job)
    seen, by, naps = unpack(subject)
    part = next_part(board)
    while part >= 0:
        for row in range(bounds[part], bounds[part + 1]):
            fetch_add(seen, row, 1)
        if naps[member] > 0:
            usleep(naps[member])
        by[part] = member
        part = next_part(board)


@kernel
def meet(job, member):
    """Every part is done only when all have begun; the subject has a counter."""
    board, _, _, subject = unpack(job)
    (begun,) = unpack(subject)
    while next_part(board) >= 0:
        fetch_add(begun, 0, 1)
        while atomic_load(begun, 0) < begun.shape[0]:
            sched_yield()


@kernel
def tell(job, member):
    """Write what the member computes with; the subject has room for that."""
    board, _, members, subject = unpack(job)
    (mark,) = unpack(members[member])
    (out,) = unpack(subject)
    part = next_part(board)
    while part >= 0:
        out[part] = mark[0]
        part = next_part(board)


@kernel
def add(held, number):
    """Work for a service: add a number."""
    (numbers,) = unpack(held)
    numbers[0] += number


@kernel
def weigh(board, together, took):
    """Tell that an update took so many cycles."""
    update_cost_model(board, together, took)
