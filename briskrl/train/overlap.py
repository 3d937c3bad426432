"""Collecting and learning at the same time, in two threads, with a fixed lag.

While iteration k collects, the updates that iteration k - 1 has earned are done on what the memory
held then; what is collected enters the memory when both are done. Actions follow the networks as
they were when the iteration began. So the result is a function of the seed alone.
"""

from __future__ import annotations

import weakref
from time import perf_counter, thread_time
from typing import Any

from briskrl.core.errors import ConfigError
from briskrl.core.phase import Phase, PhaseTimer
from briskrl.core.types import EpisodeStats, Row
from briskrl.fused.team import MOST_WAIT, SLACK_S, Retreat, Worker
from briskrl.train.collector import Collecting
from briskrl.train.learner import Learner
from briskrl.train.staging import Rows


class Overlap:
    """Does owed updates in a thread of its own, from `begin` to `finish`.

    Args:
        learner: Does the updates.
        engine: The algorithm's engine, which can act meanwhile and lend a hand.
        timer: Where waiting is counted.
    """

    def __init__(self, learner: Learner, engine: Any, timer: PhaseTimer) -> None:
        self._learner = learner
        self._engine = engine
        self._timer = timer
        self._worker = Worker(1)
        self._retreat = Retreat()
        self._under_way = False
        self._lost = False
        self.owed = 0
        """Updates that the last iteration has earned."""
        weakref.finalize(self, self._worker.leave)

    def collect(self, collector: Collecting) -> tuple[int, EpisodeStats]:
        """Do what is owed while transitions are collected; see Collecting.collect."""
        self.begin()
        try:
            return collector.collect()
        except BaseException:
            self.finish()
            raise

    def begin(self) -> None:
        """Start to do what is owed, unless the thread would only compete for a core."""
        if not self.owed or self._retreat.goes_on():
            return
        learner, engine, updates = self._learner, self._engine, self.owed

        def work(_: int) -> None:
            begin, cpu_begin = perf_counter(), thread_time()
            try:
                learner.learn(updates)
            finally:
                engine.let_go()
            cpu_s = thread_time() - cpu_begin
            self._lost = perf_counter() - begin - cpu_s > MOST_WAIT * cpu_s + SLACK_S

        self.owed = 0
        self._under_way = True
        engine.expect()
        self._worker.begin(work)

    def finish(self) -> None:
        """Wait for the updates under way, or do those that are still owed; acting follows them."""
        now = self._timer.clock
        begin = now()
        if self._under_way:
            self._engine.assist()
            error = self._worker.finish()
            self._under_way = False
            if error is not None:
                raise error
            self._retreat.judge(lost=self._lost)
            self._timer[Phase.WAIT].add(now() - begin)
        elif self.owed:
            updates, self.owed = self.owed, 0
            self._learner.learn(updates)
        self._engine.publish()
        # The collector takes all this for storing.
        self._timer[Phase.STORE].total_ns -= now() - begin


class AwaitedRows:
    """Rows whose steps enter the memory only when nobody learns from it."""

    def __init__(self, rows: Rows, overlap: Overlap) -> None:
        self._rows = rows
        self._overlap = overlap

    def row(self) -> Row:
        """Where the next step goes."""
        return self._rows.row()

    def advance(self) -> None:
        """Wait for the updates under way, then store the step."""
        self._overlap.finish()
        self._rows.advance()


def refuse_overlap(*, replays: bool, partial: bool, engine: str) -> None:
    """Say why collecting and learning cannot overlap here, if they cannot.

    Raises:
        ConfigError: They cannot.
    """
    if not replays:
        raise ConfigError(
            "--overlap is for algorithms that learn from a replay memory; a policy gradient needs "
            "what its newest policy has collected. Use --threads 2 instead."
        )
    if partial:
        raise ConfigError("--overlap needs environments that step together, not --backend async.")
    if engine != "fused":
        raise ConfigError("--overlap needs the fused engine, which computes beside other threads.")
