"""Waiting for other processes, and means of what they have written into shared memory."""

from __future__ import annotations

from briskrl.compiler.atomics import atomic_load, atomic_store, usleep
from briskrl.compiler.jit import kernel
from briskrl.parallel.kernels.spin_wait import NAP_US, PATIENCE, spin

LINE = 8
"""Words of a cache line; every process writes to a line of its own."""


@kernel
def meet(flags, rank, size, number, naps):
    """Raise the own flag to a number, and wait until those of all processes have reached it.

    Args:
        flags: (size * LINE,) int64 in shared memory.
        rank: Number of this process.
        size: Number of processes.
        number: One more than at the last call.
        naps: How often to sleep for a moment at most.

    Returns:
        Whether all of them have; if not, call it again.
    """
    atomic_store(flags, rank * LINE, number)
    looks, slept = 0, 0
    for other in range(size):
        while atomic_load(flags, other * LINE) < number:
            if looks < PATIENCE:
                looks = spin(looks, PATIENCE)
            elif slept < naps:
                slept += 1
                usleep(NAP_US)
            else:
                return False
    return True


@kernel
def mean_rows(rows, out):
    """Write the mean of the rows (K, N), added up in order, to `out` (N,)."""
    count = rows.shape[0]
    factor = out.dtype.type(1 / count)
    for i in range(out.shape[0]):
        out[i] = rows[0, i] + rows[1, i]
    for k in range(2, count):
        for i in range(out.shape[0]):
            out[i] += rows[k, i]
    for i in range(out.shape[0]):
        out[i] *= factor
