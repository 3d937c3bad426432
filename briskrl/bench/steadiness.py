"""Old against fresh in alternating turns: the steadiness of a run on a machine that is not steady.

What a step costs changes by some per cent within seconds on a shared machine, so two stretches of
one run that lie seconds apart cannot be compared. Here the run that is measured meets fresh
processes that train the same run from its beginning. They take turns of a fraction of a second, the
one that waits sleeps, and every CPU second of the compared stretches counts on its side. Cores
differ too, so all of them share the core that the run was on.
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

STARTS = 4
"""Fresh processes whose first episodes are compared with the steady state."""
EARLY_TURN_S, LATE_TURN_S, APPROACH_TURN_S = 0.01, 0.02, 0.5
"""CPU seconds per turn: in the first episodes, in the fifths, and on the way there.

Measured with six starts each: the ratio of one start varies by 0.05 with turns of 0.1 s, by 0.015
with turns of 0.01 s.
"""
FEWEST_ITERATIONS = 8
"""Shorter fifths are not compared."""

T = TypeVar("T")
Iterations = Generator[None, None, T]
"""Something that goes on for several iterations of the run; each yield is one of them."""


@dataclass(slots=True)
class Beginning:
    """How the run began, which is how fresh ones will begin."""

    learning: int | None = None
    """Iteration of the first update."""
    episodes: int = 0
    """Episodes that had ended by then."""
    length: int | None = None
    """Iteration in which the first episodes were over."""
    pace_s: float = 0.0
    """CPU seconds per iteration in the second fifth."""


class SteadinessHook:
    """A training hook that lets fresh processes train in turns with the run it is called for.

    The run trains two fifths alone. In its third fifth it meets the first episodes of fresh
    processes. The last of these trains its first fifth beside the run's fourth, and its second
    fifth beside the run's last.

    Args:
        iterations: Length of the run.
        episodes: How many episodes after the first update are the first ones.
        folder: Where fresh runs may put their folders.
    """

    def __init__(self, *, iterations: int, episodes: int, folder: Path) -> None:
        self._total = iterations
        self._fifth = iterations // 5
        self._episodes = episodes
        self._folder = folder
        self._plan: Iterations[None] | None = None
        self.starts: list[list[CostPair]] = []
        """Turns of the steady state and of first episodes, one list per fresh process."""
        self.late: list[CostPair] = []
        """Turns of the last fifth and of a second fifth: all of both, or none."""
        self.paused = Stopwatch()
        """Time that passed in the run while it was another's turn."""

    def __call__(self, run: RunRecorder) -> None:
        """Let others have their turns if it is time."""
        if self._plan is None:
            self._plan = self._follow(run)
        next(self._plan, None)

    def close(self) -> None:
        """End the other process, if there is one; may be called twice."""
        if self._plan is not None:
            self._plan.close()

    def _follow(self, run: RunRecorder) -> Iterations[None]:
        fifth = self._fifth
        begin = yield from self._alone(run)
        with one_core(run.trainer.config.num_threads), ExitStack() as stack:
            fresh = yield from self._meet_starts(run, stack, begin)
            yield from _until(run, 3 * fifth)
            if begin.learning is None or begin.learning > fifth or fifth < FEWEST_ITERATIONS:
                return
            fresh = fresh or self._start(run, stack)
            yield from self._approach(run, fresh, begin)
            self.late = yield from self._meet_fifth(run, fresh, begin)

    def _alone(self, run: RunRecorder) -> Iterations[Beginning]:
        """Train two fifths and see how long things take."""
        counters, fifth, seen, cpu_s = run.trainer.counters, self._fifth, Beginning(), 0.0
        while counters.iterations < 2 * fifth:
            if counters.iterations == fifth:
                cpu_s = process_time()
            if seen.learning is None and counters.updates:
                seen.learning, seen.episodes = counters.iterations, counters.episodes
            first_over = counters.episodes >= seen.episodes + self._episodes
            if seen.length is None and seen.learning is not None and first_over:
                seen.length = counters.iterations
            yield
        seen.pace_s = (process_time() - cpu_s) / max(1, fifth)
        return seen

    def _meet_starts(
        self, run: RunRecorder, stack: ExitStack, begin: Beginning
    ) -> Iterations[ReplicaProcess | None]:
        """Meet the first episodes of as many fresh runs as there is room for; returns the last."""
        fresh, end = None, 3 * self._fifth
        while (
            len(self.starts) < STARTS
            and begin.length is not None
            # The same run from the same seed takes as many iterations as here.
            and run.trainer.counters.iterations + begin.length <= end
        ):
            fresh = self._start(run, stack)
            self.starts.append((yield from self._meet_start(run, fresh, begin)))
        return fresh

    def _meet_start(
        self, run: RunRecorder, fresh: ReplicaProcess, begin: Beginning
    ) -> Iterations[list[CostPair]]:
        size, length = _iterations(EARLY_TURN_S, begin), begin.length or 0
        while not fresh.at.updates:
            self._turn(run, fresh, 1)
            yield
        # The turn that did the very first update is the first one to count.
        replica_s = fresh.at.cpu_s
        pairs = [CostPair((yield from _cost(1)), replica_s)]
        until = fresh.at.episodes + self._episodes
        while fresh.at.episodes < until:
            # A turn beyond the first episodes would use up iterations that the last fifth needs.
            count = max(1, min(size, length - fresh.at.iterations))
            pairs.append((yield from self._pair(run, fresh, count, swap=len(pairs) % 2 == 0)))
        return pairs

    def _approach(
        self, run: RunRecorder, fresh: ReplicaProcess, begin: Beginning
    ) -> Iterations[None]:
        """Bring the fresh run to its second fifth and this one to its last."""
        size = _iterations(APPROACH_TURN_S, begin)
        counters, last = run.trainer.counters, self._total - self._fifth
        while fresh.at.iterations < self._fifth:
            self._turn(run, fresh, min(size, self._fifth - fresh.at.iterations))
            yield from _until(run, min(counters.iterations + size, last))
        yield from _until(run, last)

    def _meet_fifth(
        self, run: RunRecorder, fresh: ReplicaProcess, begin: Beginning
    ) -> Iterations[list[CostPair]]:
        size, pairs, left = _iterations(LATE_TURN_S, begin), list[CostPair](), self._fifth
        while left:
            count = min(size, left)
            pairs.append((yield from self._pair(run, fresh, count, swap=len(pairs) % 2 == 1)))
            left -= count
        return pairs

    def _pair(
        self, run: RunRecorder, fresh: ReplicaProcess, count: int, *, swap: bool
    ) -> Iterations[CostPair]:
        """A turn of each; swapping every other pair keeps a drift of the machine out."""
        if swap:
            self._turn(run, fresh, count)
        run_s = yield from _cost(count)
        if not swap:
            self._turn(run, fresh, count)
        return CostPair(run_s, fresh.at.cpu_s)

    def _start(self, run: RunRecorder, stack: ExitStack) -> ReplicaProcess:
        """A fresh process instead of the one before."""
        with self._pause(run):
            stack.close()
            folder = self._folder / f"fresh-{len(self.starts)}"
            return stack.enter_context(ReplicaProcess(run.folder.config_path, folder))

    def _turn(self, run: RunRecorder, fresh: ReplicaProcess, count: int) -> None:
        with self._pause(run):
            fresh.turn(count)

    @contextmanager
    def _pause(self, run: RunRecorder) -> Iterator[None]:
        with run.trainer.timer[Phase.WAIT], self.paused:
            yield


@contextmanager
def one_core(threads: int) -> Iterator[None]:
    """Stay on this core, and processes begun meanwhile too; not where threads need several."""
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
    """CPU seconds of the next iterations."""
    begin = process_time()
    for _ in range(count):
        yield
    return process_time() - begin


def _iterations(cpu_s: float, begin: Beginning) -> int:
    """Iterations that take about as long."""
    return max(1, round(cpu_s / max(begin.pace_s, 1e-9)))
