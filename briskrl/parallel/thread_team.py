"""A few threads that do parts of one compiled piece of work at the same time.

A thread that is done with one part takes the next, so that a core that is slower than the others,
as on a shared machine now and then, does less. Nobody waits for a thread that has not begun.
"""

from __future__ import annotations

import weakref
from functools import lru_cache
from time import perf_counter, thread_time
from typing import Any, NamedTuple

import numpy as np

from briskrl.compiler.packed_args import PackedArgs
from briskrl.core.types import Array
from briskrl.parallel.backoff import TeamBackoff
from briskrl.parallel.kernels.queue import new_queue, set_parts
from briskrl.parallel.native_worker import NativeWorker, Work
from briskrl.parallel.thread_pool import Worker

MOST_PARTS = 2
"""Per member."""
LAST = 1 / 8
"""Share of the work in the short parts at the end: of two members one may then be as slow as 7 to
9. More and smaller parts would even out more, but their results, such as gradients, have to be
fetched from other cores."""


class Job(NamedTuple):
    """The packed arguments of a team's kernel, which also gets the number of its member."""

    queue: Any
    """For `next_part`."""
    bounds: Any
    """(P + 1,) int64: part p covers rows bounds[p]..bounds[p + 1]-1."""
    members: Any
    """What each member computes with, packed."""
    args: Any
    """The arrays of this piece of work, packed."""


class ThreadTeam:
    """Runs compiled work that is made of parts.

    Args:
        members: What each of the threads computes with, the calling thread's first.
    """

    def __init__(self, members: tuple[PackedArgs[Any], ...]) -> None:
        self.size = len(members)
        self._members = members
        threads = [Worker(number) for number in range(1, self.size)]
        self._workers = [NativeWorker(thread) for thread in threads]
        self._backoff = TeamBackoff()
        self._queue = new_queue(1, 0)
        self._bounds = np.zeros(MOST_PARTS * self.size + 1, np.int64)
        self._jobs: dict[Work, _Prepared] = {}
        weakref.finalize(self, _stop, threads)

    def run(self, work: Work, args: tuple[Array, ...], bounds: tuple[int, ...]) -> None:
        """Call work(job, member) in several threads until all parts are done.

        While other processes keep the cores busy, the calling thread does everything: it would only
        wait for members that have lost their core.

        Args:
            work: A kernel that takes a packed Job and the number of a member.
            args: The arrays of the job.
            bounds: Where parts begin, and where the last one ends; at most MOST_PARTS per member.
        """
        parts = len(bounds) - 1
        self._bounds[: parts + 1] = bounds
        set_parts(self._queue, parts)
        job = self._job(work, args)
        if min(parts, self.size) == 1 or self._backoff.skips():
            work(job, 0)
        else:
            self._run_together(work, job, self._workers[: parts - 1])

    def _run_together(self, work: Work, job: PackedArgs[Job], workers: list[NativeWorker]) -> None:
        begin, own_begin = perf_counter(), thread_time()
        for number, worker in enumerate(workers, 1):
            worker.begin(work, job, number)
        try:
            work(job, 0)
        finally:
            work_s = thread_time() - own_begin
            work_s += sum([worker.cancel_or_wait() for worker in workers]) / 1e9
        self._backoff.judge(perf_counter() - begin, work_s)

    def _job(self, work: Work, args: tuple[Array, ...]) -> PackedArgs[Job]:
        kinds = [_kind_of(array) for array in args]
        found = self._jobs.get(work)
        if found is None or found.kinds != kinds:
            packed = PackedArgs(args)
            job = PackedArgs(Job(self._queue, self._bounds, self._members, packed))
            found = self._jobs[work] = _Prepared(kinds, packed, job)
        else:
            found.args.update(args)
        return found.job


class _Prepared(NamedTuple):
    """A job that can be reused for arrays of the same kinds."""

    kinds: list[tuple[Any, ...]]
    args: PackedArgs[tuple[Array, ...]]
    job: PackedArgs[Job]


def _kind_of(array: Array) -> tuple[Any, ...]:
    """What compiled code depends on."""
    flags = array.flags
    return array.dtype, array.ndim, flags.c_contiguous, flags.f_contiguous


def _stop(threads: list[Worker]) -> None:
    for thread in threads:
        thread.stop()


@lru_cache(64)
def bounds_of(count: int, size: int, unit: int, smallest: int) -> tuple[int, ...]:
    """Where the parts of `count` rows begin for a team of `size`, and where the last one ends.

    Every member has a long part to begin with. What is left of an even share, LAST of it, makes as
    many short parts for members that finish early, if they have at least `smallest` rows. Parts
    are multiples of `unit` rows.
    """
    size = max(1, min(size, count // smallest))
    shares = [1 - LAST, LAST] if size > 1 and LAST * count / size >= smallest else [1]
    units = -(-count // unit)
    ends = np.cumsum(np.repeat(shares, size)) / size
    return 0, *(min(count, round(end * units) * unit) for end in ends.tolist())
