"""A few threads that do parts of one compiled piece of work at the same time.

Compiled code releases the interpreter lock, so parts really run side by side. Whoever is done with
one part takes the next, so that a core that is slower than the others, as on a shared machine now
and then, does less; and nobody waits for a thread that has not begun with anything.
"""

from __future__ import annotations

import weakref
from functools import lru_cache
from time import perf_counter, thread_time
from typing import Any, NamedTuple

import numpy as np

from briskrl.compiler.packed_args import PackedArgs
from briskrl.core.types import Array
from briskrl.parallel.backoff import Backoff
from briskrl.parallel.kernels.queue import BOARD_SIZE, NEXT, PARTS
from briskrl.parallel.native_worker import NativeWorker, Work
from briskrl.parallel.worker import Worker

MOST_PARTS = 2
"""Per member."""
LAST = 1 / 8
"""Share of the work that is left for whoever is done first: of two members one may then be as slow
as 7 to 9. More and smaller parts would even out more, but what they leave behind, as gradients, has
to be fetched from other cores."""


class Job(NamedTuple):
    """What the work of a team is called with, held, besides the member's number."""

    board: Any
    """Where `next_part` finds parts."""
    bounds: Any
    """(P + 1,) int64: part p is about bounds[p]..bounds[p + 1]-1."""
    members: Any
    """What each member computes with, held."""
    subject: Any
    """Arrays that the work is about, held."""


class ThreadTeam:
    """Does compiled work that is made of parts.

    Args:
        members: What each of the threads computes with, the calling thread's first.
    """

    def __init__(self, members: tuple[PackedArgs[Any], ...]) -> None:
        self.size = len(members)
        self._members = members
        workers = [Worker(number) for number in range(1, self.size)]
        self._services = [NativeWorker(worker) for worker in workers]
        self._backoff = Backoff()
        self._board = np.zeros(BOARD_SIZE, np.int64)
        self._bounds = np.zeros(MOST_PARTS * self.size + 1, np.int64)
        self._jobs: dict[Work, _Prepared] = {}
        weakref.finalize(self, _dismiss, workers)

    def run(self, work: Work, subject: tuple[Array, ...], bounds: tuple[int, ...]) -> None:
        """Have work(errand, member) called by members until all parts are done.

        If others keep the cores busy, the calling thread does everything for a while: it would only
        wait for members that have lost their core.

        Args:
            work: A kernel that takes an Errand, held, and the number of a member.
            subject: Arrays that it is about.
            bounds: Where parts begin, and where the last one ends; at most MOST_PARTS per member.
        """
        parts = len(bounds) - 1
        self._bounds[: parts + 1] = bounds
        self._board[NEXT], self._board[PARTS] = 0, parts
        job = self._job(work, subject)
        if min(parts, self.size) == 1 or self._backoff.goes_on():
            work(job, 0)
        else:
            self._run_together(work, job, self._services[: parts - 1])

    def _run_together(self, work: Work, job: PackedArgs[Job], services: list[NativeWorker]) -> None:
        begin, own_begin = perf_counter(), thread_time()
        for number, service in enumerate(services, 1):
            service.begin(work, job, number)
        try:
            work(job, 0)
        finally:
            work_s = thread_time() - own_begin
            work_s += sum([service.cancel_or_wait() for service in services]) / 1e9
        self._backoff.judge(perf_counter() - begin, work_s)

    def _job(self, work: Work, subject: tuple[Array, ...]) -> PackedArgs[Job]:
        kinds = [_kind_of(array) for array in subject]
        found = self._jobs.get(work)
        if found is None or found.kinds != kinds:
            held = PackedArgs(subject)
            job = PackedArgs(Job(self._board, self._bounds, self._members, held))
            found = self._jobs[work] = _Prepared(kinds, held, job)
        else:
            found.subject.update(subject)
        return found.job


class _Prepared(NamedTuple):
    """An errand that arrays of some kinds can be put into."""

    kinds: list[tuple[Any, ...]]
    subject: PackedArgs[tuple[Array, ...]]
    job: PackedArgs[Job]


def _kind_of(array: Array) -> tuple[Any, ...]:
    """What compiled code takes for granted."""
    flags = array.flags
    return array.dtype, array.ndim, flags.c_contiguous, flags.f_contiguous


def _dismiss(workers: list[Worker]) -> None:
    for worker in workers:
        worker.leave()


@lru_cache(64)
def bounds_of(count: int, size: int, whole: int, smallest: int) -> tuple[int, ...]:
    """Where the parts of `count` rows begin for a team of so many, and where the last one ends.

    Everybody has a long part to begin with. What is left of an even share, LAST of it, are as many
    short ones for whoever is done first, if they have `smallest` rows. Parts are whole units of
    `whole` rows.
    """
    size = max(1, min(size, count // smallest))
    shares = [1 - LAST, LAST] if size > 1 and LAST * count / size >= smallest else [1]
    units = -(-count // whole)
    ends = np.cumsum(np.repeat(shares, size)) / size
    return 0, *(min(count, round(end * units) * whole) for end in ends.tolist())
