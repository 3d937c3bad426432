"""Collecting and learning at the same time, in two threads, with a fixed lag.

While iteration k collects, the updates that iteration k - 1 has earned are done on what the memory
held then. Actions follow the networks as they were when the iteration began. So the result is a
function of the seed alone.

Batches are drawn as soon as they are earned, beside the updates under way, and what the target
network says of them is computed then: learning in the other thread takes longer than collecting.
Where draws depend on those updates, they are left to that thread, and what is collected enters the
memory when both are done.
"""

from __future__ import annotations

import weakref
from functools import partial
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from briskrl.algos.dqn.kernels.updates import run_updates
from briskrl.core.errors import ConfigError
from briskrl.core.phase import Phase, PhaseTimer
from briskrl.core.types import Batch, EpisodeStats, StepSlot
from briskrl.parallel.backoff import Backoff
from briskrl.parallel.native_worker import NativeWorker
from briskrl.parallel.worker import Worker
from briskrl.training.collector import Collecting, StepSlots
from briskrl.training.learner import ReplayLearner

if TYPE_CHECKING:
    from briskrl.algos.dqn.agent import DQN
    from briskrl.algos.dqn.fused_engine import FusedDQNEngine


class Overlap:
    """Does owed updates in a thread of its own, from `begin` to `finish`.

    Args:
        learner: Does the updates.
        algo: What learns; its engine can act meanwhile and lend a hand.
        rng: What the learner draws with.
        timer: Where waiting is counted.
    """

    def __init__(
        self, learner: ReplayLearner, algo: DQN, rng: np.random.Generator, timer: PhaseTimer
    ) -> None:
        self._learner = learner
        self._algo = algo
        self._engine: FusedDQNEngine = cast("FusedDQNEngine", algo.engines.now)
        self._rng = rng
        self._timer = timer
        self._worker = Worker(1)
        self._service = NativeWorker(self._worker)
        self._backoff = Backoff()
        self._under_way: _Updates | None = None
        self._begun = False
        self._begin = self._own_begin = self._learning_s = 0.0
        self._before_draw: Any = None
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
        if not self.owed:
            return
        drawn = self._before_draw is not None
        if drawn:
            self._learner.turn_to_drawn()
        self._under_way = _Updates(self.owed, self._algo.updates, drawn=drawn)
        self.owed, self._before_draw = 0, None
        self._begun = not self._backoff.goes_on()
        if self._begun:
            self._begin, self._own_begin = perf_counter(), thread_time()
            self._engine.freeze_actor(self._learner.batch)
            self._begin_aside(self._under_way)

    def _begin_aside(self, updates: _Updates) -> None:
        if updates.drawn:
            self._service.begin(run_updates, self._learner.prepare_drawn(updates.number))
        else:
            self._service.close()
            self._worker.begin(partial(self._learn_aside, updates))

    @property
    def reads_memory(self) -> bool:
        """Whether updates under way still draw from the memory, which must not change then."""
        return self._under_way is not None and not self._under_way.drawn

    def earn(self, updates: int) -> None:
        """Draw for as many updates as were earned, and wait for those under way."""
        self.owed += updates
        before = self._rng.bit_generator.state
        batch = self._learner.draw(self.owed)
        if batch is not None:
            self._before_draw = before
            # Alone, this would only be done earlier.
            if self._begun:
                self._precompute_targets(batch)
        self.finish()

    def finish(self) -> None:
        """Wait for the updates under way, or do them now; acting follows them."""
        running, self._under_way = self._under_way, None
        if running is None:
            return
        if self._begun:
            own_s = thread_time() - self._own_begin
            self._finish_aside(running)
            self._backoff.judge(perf_counter() - self._begin, self._learning_s + own_s)
        else:
            self._service.close()
            self._learn(running)

    def _finish_aside(self, updates: _Updates) -> None:
        served = updates.drawn
        error, took_ns, before_ns = None, 0, 0
        with self._timer[Phase.WAIT]:
            end = self._service.end if served else self._worker.end
            self._engine.help_until(self._learner.batch, end)
            if served:
                took_ns, before_ns = self._service.finish()
            else:
                error = self._worker.finish()
        self._engine.unfreeze_actor()
        if error is not None:
            raise error
        if served:
            self._learning_s = took_ns / 1e9
            self._learner.conclude_drawn(updates.number, took_ns + before_ns)

    def rehearse(self) -> None:
        """Go through everything that learning beside collecting calls, on what the memory has."""
        for _ in range(3):
            self.begin()
            self.earn(1)
        self.begin()
        self.finish()

    def forget(self) -> None:
        """Take back what was drawn, so that nothing but `owed` is left to be told."""
        if self._before_draw is not None:
            self._rng.bit_generator.state = self._before_draw
            self._before_draw = None
            self._engine.forget()

    def _precompute_targets(self, batch: Batch) -> None:
        running = self._under_way or _Updates(0, self._algo.updates, drawn=True)
        now = self._timer.clock
        begin = now()
        before = running.after + running.number
        task = self._engine.precompute_targets(batch, self.owed, running.after, before)
        if task is not None:
            self._engine.prefetch(batch, self._service.prefetch(run_updates, task))
        # The phase itself has been entered by the thread that does the updates.
        self._timer[Phase.UPDATE].add(now() - begin)

    def _learn_aside(self, updates: _Updates, _: int) -> None:
        begin = thread_time()
        self._learn(updates)
        self._learning_s = thread_time() - begin

    def _learn(self, updates: _Updates) -> None:
        if updates.drawn:
            self._learner.learn_drawn(updates.number)
        else:
            self._learner.learn(updates.number)


class _Updates(NamedTuple):
    """Updates under way."""

    number: int
    after: int
    """How many had been done before."""
    drawn: bool
    """Whether their batch was drawn beforehand."""


class DeferredSlots:
    """Rows whose steps enter the memory only when nobody draws from it."""

    def __init__(self, rows: StepSlots, overlap: Overlap, timer: PhaseTimer) -> None:
        self._rows = rows
        self._overlap = overlap
        self._timer = timer

    def next_slot(self) -> StepSlot:
        """Where the next step goes."""
        return self._rows.next_slot()

    def advance(self) -> None:
        """Store the step, after the updates under way if these draw from the memory."""
        if self._overlap.reads_memory:
            now = self._timer.clock
            begin = now()
            self._overlap.finish()
            # The collector takes all this for storing.
            self._timer[Phase.STORE].total_ns -= now() - begin
        self._rows.advance()


def check_overlap(*, replays: bool, partial: bool, engine: str) -> None:
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
