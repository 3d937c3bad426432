"""Waiting for other processes, and means of what they have written into shared memory."""

from __future__ import annotations

from briskrl.compiler.atomics import atomic_load, atomic_store, usleep, yield_core
from briskrl.compiler.jit import kernel

LINE = 8
"""Words of a cache line; every process writes to a line of its own."""
_LOOKS, _YIELDS, _NAP_US = 1000, 8000, 20
"""Looks without a pause, then looks after each of which the core is offered to others, then naps
and how long they are."""
_CROWDED = 64
"""Exchanges without yielding after another process has taken the core. One that yields on a crowded
machine waits for all others to have their turn; one that sleeps comes back soon."""


@kernel
def meet(flags, rank, size, number, naps, crowded):
    """Raise the own flag to a number, and wait until those of all processes have reached it.

    Args:
        flags: (size * LINE,) int64 in shared memory.
        rank: Number of this process.
        size: Number of processes.
        number: One more than at the last call.
        naps: How often to sleep for a moment at most.
        crowded: (1,) int64 exchanges left without yielding; updated.

    Returns:
        Whether all of them have; if not, call it again.
    """
    atomic_store(flags, rank * LINE, number)
    looks, slept = 0, 0
    most = _LOOKS if crowded[0] > 0 else _LOOKS + _YIELDS
    crowded[0] -= crowded[0] > 0
    for other in range(size):
        while atomic_load(flags, other * LINE) < number:
            looks += 1
            if looks < _LOOKS:
                continue
            if looks < most:
                if yield_core():
                    crowded[0], most = _CROWDED, 0
            elif slept < naps:
                slept += 1
                usleep(_NAP_US)
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
