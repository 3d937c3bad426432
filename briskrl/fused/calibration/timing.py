"""The time that a piece of work takes when nothing disturbs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time

import torch

SLICE_S = 5e-4
"""Work is timed in slices at least this long, so that reading the clock does not count."""

Work = Callable[[int], None]
"""Does something the given number of times."""


def best_seconds(work: Work, *, budget_s: float, clock: Callable[[], float] = thread_time) -> float:
    """Seconds per repetition in the fastest slice of about `budget_s` seconds of work.

    Other processes can only make a slice slower, so the fastest is the best estimate.

    Args:
        work: Called with the number of repetitions.
        budget_s: Seconds to spend; there is always one slice.
        clock: CPU time of this thread, or wall time for work that other threads share.
    """
    work(1)
    end = clock() + budget_s
    repeats, best = 1, float("inf")
    while True:
        begin = clock()
        work(repeats)
        now = clock()
        if now - begin < SLICE_S:
            repeats *= 2
            continue
        best = min(best, (now - begin) / repeats)
        if now >= end:
            return best


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """A context in which torch computes with this many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
