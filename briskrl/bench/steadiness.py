"""Does a run slow down, or start slowly? Compare it with replicas of itself in alternating slices.

On a shared machine the cost of a step changes by some percent within seconds, so two parts of one
run that are seconds apart cannot be compared. Instead the run alternates with a replica: a child
process that trains the same run from its start. Slices take a fraction of a second, the waiting
side sleeps, and all CPU time of the compared parts counts. Cores differ too, so both sides share
one core.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import TypeVar

import psutil

from briskrl.bench.compare import CostPair
from briskrl.bench.replica_process import ReplicaProcess
from briskrl.bench.stopwatch import Stopwatch
from briskrl.core.phase import Phase
from briskrl.training.recorder import RunRecorder

MAX_STARTS = 4
"""Replicas whose first episodes are compared with the steady state."""
EARLY_SLICE_S, LATE_SLICE_S, APPROACH_SLICE_S = 0.01, 0.02, 0.5
"""CPU seconds per slice: in the first episodes, in the compared fifths, and between them.

Measured with six starts each: the ratio of one start varies by 0.05 with slices of 0.1 s and by
0.015 with slices of 0.01 s.
"""
MIN_ITERATIONS = 8
"""Shorter fifths are not compared."""

T = TypeVar("T")
Iterations = Generator[None, None, T]
"""Part of the schedule that spans several iterations of the run; each yield is one iteration."""


@dataclass(slots=True)
class Start:
    """How the run started; its replicas start the same way."""

    first_update: int | None = None
    """Iteration of the first update."""
    episodes: int = 0
    """Episodes that had ended by then."""
    early_end: int | None = None
    """Iteration in which the last of the first episodes ended."""
    iteration_s: float = 0.0
    """CPU seconds per iteration in the second fifth."""


class SteadinessHook:
    """A training hook that alternates the run with replicas of it.

    The run trains two fifths alone. Its third fifth alternates with the first episodes of replicas.
    The last replica trains its first fifth beside the run's fourth, and its second fifth beside the
    run's last.

    Args:
        iterations: Length of the run.
        episodes: Number of episodes after the first update that count as the first ones.
        folder: Where replicas create their run folders.
    """

    def __init__(self, *, iterations: int, episodes: int, folder: Path) -> None:
        self._total = iterations
        self._fifth = iterations // 5
        self._episodes = episodes
        self._folder = folder
        self._schedule: Iterations[None] | None = None
        self.starts: list[list[CostPair]] = []
        """Slices of the steady state and of first episodes, one list per replica."""
        self.late: list[CostPair] = []
        """Slices of the last fifth and of a replica's second fifth: all of both, or none."""
        self.paused = Stopwatch()
        """Time during which the run waited for a replica."""

    def __call__(self, run: RunRecorder) -> None:
        """Run slices of a replica when the schedule calls for them."""
        if self._schedule is None:
            self._schedule = self._follow(run)
        next(self._schedule, None)

    def close(self) -> None:
        """End the replica, if there is one; may be called twice."""
        if self._schedule is not None:
            self._schedule.close()

    def _follow(self, run: RunRecorder) -> Iterations[None]:
        fifth = self._fifth
        start = yield from self._train_alone(run)
        with one_core(run.trainer.config.num_threads), ExitStack() as stack:
            replica = yield from self._compare_starts(run, stack, start)
            yield from _until(run, 3 * fifth)
            first = start.first_update
            if first is None or first > fifth or fifth < MIN_ITERATIONS:
                return
            replica = replica or self._new_replica(run, stack)
            yield from self._approach(run, replica, start)
            self.late = yield from self._compare_fifths(run, replica, start)

    def _train_alone(self, run: RunRecorder) -> Iterations[Start]:
        """Train two fifths; returns when things happened and what an iteration costs."""
        counters, fifth, seen, cpu_s = run.trainer.counters, self._fifth, Start(), 0.0
        while counters.iterations < 2 * fifth:
            if counters.iterations == fifth:
                cpu_s = process_time()
            if seen.first_update is None and counters.updates:
                seen.first_update, seen.episodes = counters.iterations, counters.episodes
            first_over = counters.episodes >= seen.episodes + self._episodes
            if seen.early_end is None and seen.first_update is not None and first_over:
                seen.early_end = counters.iterations
            yield
        seen.iteration_s = (process_time() - cpu_s) / max(1, fifth)
        return seen

    def _compare_starts(
        self, run: RunRecorder, stack: ExitStack, start: Start
    ) -> Iterations[ReplicaProcess | None]:
        """Alternate with the first episodes of replicas while time is left; returns the last."""
        replica, end = None, 3 * self._fifth
        while (
            len(self.starts) < MAX_STARTS
            and start.early_end is not None
            # The same run from the same seed takes as many iterations as this one did.
            and run.trainer.counters.iterations + start.early_end <= end
        ):
            replica = self._new_replica(run, stack)
            self.starts.append((yield from self._compare_start(run, replica, start)))
        return replica

    def _compare_start(
        self, run: RunRecorder, replica: ReplicaProcess, start: Start
    ) -> Iterations[list[CostPair]]:
        size, early_end = _slice_size(EARLY_SLICE_S, start), start.early_end or 0
        while not replica.progress.updates:
            self._train_replica(run, replica, 1)
            yield
        # The slice with the first update is the first one that counts.
        replica_s = replica.progress.cpu_s
        pairs = [CostPair((yield from _cost(1)), replica_s)]
        until = replica.progress.episodes + self._episodes
        while replica.progress.episodes < until:
            # A slice beyond the first episodes would use up iterations that the last fifth needs.
            count = max(1, min(size, early_end - replica.progress.iterations))
            pairs.append((yield from self._pair(run, replica, count, swap=len(pairs) % 2 == 0)))
        return pairs

    def _approach(
        self, run: RunRecorder, replica: ReplicaProcess, start: Start
    ) -> Iterations[None]:
        """Train the replica up to its second fifth and the run up to its last."""
        size = _slice_size(APPROACH_SLICE_S, start)
        counters, last = run.trainer.counters, self._total - self._fifth
        while replica.progress.iterations < self._fifth:
            left = self._fifth - replica.progress.iterations
            self._train_replica(run, replica, min(size, left))
            yield from _until(run, min(counters.iterations + size, last))
        yield from _until(run, last)

    def _compare_fifths(
        self, run: RunRecorder, replica: ReplicaProcess, start: Start
    ) -> Iterations[list[CostPair]]:
        size, pairs, left = _slice_size(LATE_SLICE_S, start), list[CostPair](), self._fifth
        while left:
            count = min(size, left)
            pairs.append((yield from self._pair(run, replica, count, swap=len(pairs) % 2 == 1)))
            left -= count
        return pairs

    def _pair(
        self, run: RunRecorder, replica: ReplicaProcess, count: int, *, swap: bool
    ) -> Iterations[CostPair]:
        """A slice of each; callers swap the order in every other pair, so that drift cancels."""
        if swap:
            self._train_replica(run, replica, count)
        run_s = yield from _cost(count)
        if not swap:
            self._train_replica(run, replica, count)
        return CostPair(run_s, replica.progress.cpu_s)

    def _new_replica(self, run: RunRecorder, stack: ExitStack) -> ReplicaProcess:
        """Start a replica in place of the previous one."""
        with self._pause(run):
            stack.close()
            folder = self._folder / f"replica-{len(self.starts)}"
            return stack.enter_context(ReplicaProcess(run.folder.config_path, folder))

    def _train_replica(self, run: RunRecorder, replica: ReplicaProcess, count: int) -> None:
        with self._pause(run):
            replica.train(count)

    @contextmanager
    def _pause(self, run: RunRecorder) -> Iterator[None]:
        with run.trainer.timer[Phase.WAIT], self.paused:
            yield


@contextmanager
def one_core(threads: int) -> Iterator[None]:
    """Pin this process, and children it starts, to its current core unless it uses threads."""
    if threads > 1 or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {psutil.Process().cpu_num()})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _until(run: RunRecorder, iteration: int) -> Iterations[None]:
    while run.trainer.counters.iterations < iteration:
        yield


def _cost(count: int) -> Iterations[float]:
    """CPU seconds of the next `count` iterations."""
    begin = process_time()
    for _ in range(count):
        yield
    return process_time() - begin


def _slice_size(cpu_s: float, start: Start) -> int:
    """Number of iterations that take about `cpu_s`."""
    return max(1, round(cpu_s / max(start.iteration_s, 1e-9)))
