"""Compiled work for the tests of threads, in a file of its own for the kernel cache."""

from __future__ import annotations

from briskrl.compiler.atomics import atomic_load, fetch_add, sched_yield, usleep
from briskrl.compiler.jit import kernel
from briskrl.compiler.packed_args import unpack
from briskrl.parallel.kernels.queue import next_part


@kernel
def count(job, member):
    """Count how often every row is seen, and record which member had which part.

    The arguments are arrays for both, and how many microseconds each member naps in a part.
    """
    queue, bounds, _, args = unpack(job)
    seen, by, naps = unpack(args)
    part = next_part(queue)
    while part >= 0:
        for row in range(bounds[part], bounds[part + 1]):
            fetch_add(seen, row, 1)
        if naps[member] > 0:
            usleep(naps[member])
        by[part] = member
        part = next_part(queue)


@kernel
def meet(job, member):
    """Every part waits until all have begun; the argument is a counter."""
    queue, _, _, args = unpack(job)
    (begun,) = unpack(args)
    while next_part(queue) >= 0:
        fetch_add(begun, 0, 1)
        while atomic_load(begun, 0) < begun.shape[0]:
            sched_yield()


@kernel
def write_member(job, member):
    """Write the number of the member into the argument."""
    queue, _, members, args = unpack(job)
    (mark,) = unpack(members[member])
    (out,) = unpack(args)
    part = next_part(queue)
    while part >= 0:
        out[part] = mark[0]
        part = next_part(queue)


@kernel
def add(packed, number):
    """Work for a NativeWorker: add a number."""
    (numbers,) = unpack(packed)
    numbers[0] += number
