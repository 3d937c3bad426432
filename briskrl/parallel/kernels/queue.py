"""A queue of chunks that several threads take until none is left.

A queue is an int64 array. Each lane, one per thread, owns an equal range of the chunks; a thread
takes those of its own lane first, then those of others. Nobody waits for a thread that has taken
nothing, so a thread that sleeps or has lost its core delays no one.
"""

from __future__ import annotations

import numpy as np

from briskrl.compiler.atomics import atomic_load, atomic_store, fetch_add
from briskrl.compiler.jit import helper
from briskrl.core.types import Ints
from briskrl.parallel.kernels.spin_wait import wait_until

CACHE_LINE = 8
"""Numbers in a cache line: what different threads write often is a line apart."""
LANES, CHUNKS, EXTRA, DONE, FIRST_LANE = 0, 1, 2, 16, 24
"""Indices into a queue: number of lanes and chunks, room for EXTRA numbers that all threads read,
how many chunks are done, and the first lane, which is a cache line long as are the others."""
FIRST, END, NEXT = range(3)
"""Indices into a lane: its range of chunks, and the next one to take."""
PATIENCE = 2000
"""Looks before a thread that waits for the last chunks naps."""


def new_queue(lanes: int, chunks: int) -> Ints:
    """A queue from which everything has been taken, see `refill`."""
    queue = np.zeros(FIRST_LANE + lanes * CACHE_LINE, np.int64)
    queue[LANES], queue[CHUNKS] = lanes, chunks
    cuts = [chunks * lane // lanes for lane in range(lanes + 1)]
    table = queue[FIRST_LANE:].reshape(lanes, CACHE_LINE)
    table[:, FIRST] = cuts[:-1]
    table[:, END] = table[:, NEXT] = cuts[1:]
    return queue


@helper
def refill(queue):
    """Offer all chunks again."""
    atomic_store(queue, DONE, 0)
    for lane in range(queue[LANES]):
        start = FIRST_LANE + lane * CACHE_LINE
        atomic_store(queue, start + NEXT, queue[start + FIRST])


@helper
def take_chunk(queue, lane):
    """A chunk that is the caller's from now on, of its own lane if there is one left; else -1.

    What the queue says about a chunk may be read after it was taken, and not before: until that
    chunk is done nobody calls `refill`.
    """
    lanes = queue[LANES]
    for k in range(lanes):
        start = FIRST_LANE + (lane + k) % lanes * CACHE_LINE
        if atomic_load(queue, start + NEXT) < queue[start + END]:
            chunk = fetch_add(queue, start + NEXT, 1)
            if chunk < queue[start + END]:
                return chunk
    return -1


@helper
def finish_chunk(queue):
    """Count a chunk as done."""
    fetch_add(queue, DONE, 1)


@helper
def wait_for_chunks(queue):
    """Return when every chunk is done."""
    wait_until(queue, DONE, queue[CHUNKS], PATIENCE)


def set_parts(queue: Ints, parts: int) -> None:
    """Offer the given number of parts in the only lane of a queue."""
    queue[FIRST_LANE + NEXT], queue[FIRST_LANE + END] = 0, parts


@helper
def next_part(queue):
    """A part that is the caller's from now on, in the order of their numbers; -1 if none is left.

    For queues with one lane.
    """
    return take_chunk(queue, 0)
