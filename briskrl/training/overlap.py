"""Collect and learn at the same time, in two threads, with a fixed lag.

While iteration k collects, the updates that iteration k - 1 made due run on what the memory held
then. Actions follow the networks as they were when the iteration began. So the result is a function
of the seed alone. An iteration is `update_every` vector steps.

Batches are sampled as soon as their updates are due, beside the updates under way, and their TD
targets are precomputed then: learning in the other thread takes longer than collecting. Where
samples depend on those updates (prioritized replay), the learner thread samples, and collected
transitions enter the memory when both are done.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from time import perf_counter, thread_time
from typing import Any, NamedTuple

import numpy as np

from briskrl.algos.base import CompiledUpdates
from briskrl.core.counters import Counters
from briskrl.core.errors import ConfigError
from briskrl.core.phase import Phase, PhaseTimer
from briskrl.core.types import Batch, EpisodeStats, StepSlot
from briskrl.parallel.backoff import TeamBackoff
from briskrl.parallel.native_worker import NativeWorker
from briskrl.parallel.thread_pool import Worker
from briskrl.training.collector import StepSlots
from briskrl.training.learner import OffPolicyLearner


class Overlap:
    """Does the pending updates in a thread of its own, from `begin` to `finish`.

    Args:
        learner: Does the updates.
        compiled: The algorithm's updates as tasks for the other thread.
        rng: The random stream that the learner samples with.
        timer: Where waiting is counted.
        counters: Progress of the run.
    """

    def __init__(
        self,
        learner: OffPolicyLearner,
        compiled: CompiledUpdates,
        rng: np.random.Generator,
        timer: PhaseTimer,
        counters: Counters,
    ) -> None:
        self._learner = learner
        self._compiled = compiled
        self._rng = rng
        self._timer = timer
        self._counters = counters
        self._worker = Worker(1)
        self._native_worker = NativeWorker(self._worker)
        self._backoff = TeamBackoff()
        self._under_way: _Updates | None = None
        self._in_thread = False
        self._begin = self._own_begin = self._learning_s = 0.0
        self._rng_before_prefetch: Any = None
        self.pending = 0
        """Updates that the last iteration made due."""
        weakref.finalize(self, self._worker.stop)

    def collect(self, collect: Callable[[], tuple[int, EpisodeStats]]) -> tuple[int, EpisodeStats]:
        """Collect while the pending updates are done; see Collecting.collect."""
        self.begin()
        try:
            return collect()
        except BaseException:
            self.finish()
            raise

    def begin(self) -> None:
        """Start the pending updates, unless the thread would only compete for a core."""
        self._compiled.begin_round()
        if not self.pending:
            return
        prefetched = self._rng_before_prefetch is not None
        if prefetched:
            self._learner.swap_batches()
        self._under_way = _Updates(self.pending, self._compiled.updates, prefetched=prefetched)
        self.pending, self._rng_before_prefetch = 0, None
        self._in_thread = not self._backoff.skips()
        if self._in_thread:
            self._begin, self._own_begin = perf_counter(), thread_time()
            self._compiled.freeze_actor(self._learner.batch, beyond_help=self.reads_memory)
            self._begin_in_thread(self._under_way)

    def _begin_in_thread(self, updates: _Updates) -> None:
        if updates.prefetched:
            batch, compiled = self._learner.batch, self._compiled
            task = compiled.prepare(batch, updates.number, self._counters)
            self._native_worker.begin(compiled.run, task)
        else:
            self._native_worker.close()
            self._worker.begin(partial(self._learn_in_thread, updates))

    @property
    def reads_memory(self) -> bool:
        """Whether updates under way still sample from the memory, which must not change then."""
        return self._under_way is not None and not self._under_way.prefetched

    def schedule(self, updates: int) -> None:
        """Prefetch the batch of the updates that are due, and wait for those under way."""
        self.pending += updates
        before = self._rng.bit_generator.state
        batch = self._learner.prefetch(self.pending)
        if batch is not None:
            self._rng_before_prefetch = before
            # Without the other thread, this would only be done earlier, not in parallel.
            if self._in_thread:
                self._precompute_targets(batch)
        self.finish()

    def finish(self) -> None:
        """Wait for the updates under way, or do them here; acting follows them."""
        self._finish_updates()
        self._compiled.unfreeze_actor()

    def finish_before_storing(self) -> None:
        """Wait for the updates under way, or do them here; acting follows them after the round.

        So actions do not depend on whether the batch was sampled before the round began.
        """
        if not self._in_thread:
            self._compiled.freeze_actor(self._learner.batch, beyond_help=True)
        self._finish_updates()

    def _finish_updates(self) -> None:
        running, self._under_way = self._under_way, None
        if running is None:
            return
        if self._in_thread:
            own_s = thread_time() - self._own_begin
            self._finish_in_thread(running)
            self._backoff.judge(perf_counter() - self._begin, self._learning_s + own_s)
        else:
            self._native_worker.close()
            self._learn(running)

    def _finish_in_thread(self, updates: _Updates) -> None:
        native = updates.prefetched
        error, took_ns = None, 0
        with self._timer[Phase.WAIT]:
            end = self._native_worker.end if native else self._worker.end
            self._compiled.help_until(self._learner.batch, end)
            if native:
                took_ns = self._native_worker.finish()
            else:
                error = self._worker.finish()
        if error is not None:
            raise error
        if native:
            self._learning_s = took_ns / 1e9
            self._learner.finish_compiled(self._compiled, updates.number, took_ns)

    def warm_up(self) -> None:
        """Run all code that learning beside collecting runs, on whatever is in the memory."""
        for _ in range(3):
            self.begin()
            self.schedule(1)
        self.begin()
        self.finish()

    def discard_prefetched(self) -> None:
        """Undo the prefetched sample; of pending updates only their number needs saving."""
        if self._rng_before_prefetch is not None:
            self._rng.bit_generator.state = self._rng_before_prefetch
            self._rng_before_prefetch = None
            self._compiled.discard_precomputed()

    def _precompute_targets(self, batch: Batch) -> None:
        running = self._under_way or _Updates(0, self._compiled.updates, prefetched=True)
        now = self._timer.clock
        begin = now()
        self._compiled.precompute_targets(
            batch, self.pending, started=running.after, finished=running.after + running.number
        )
        # The phase itself has been entered by the thread that does the updates.
        self._timer[Phase.UPDATE].add(now() - begin)

    def _learn_in_thread(self, updates: _Updates, _: int) -> None:
        begin = thread_time()
        self._learn(updates)
        self._learning_s = thread_time() - begin

    def _learn(self, updates: _Updates) -> None:
        if updates.prefetched:
            self._learner.learn_prefetched(updates.number)
        else:
            self._learner.learn(updates.number)


class _Updates(NamedTuple):
    """Updates under way."""

    number: int
    after: int
    """Updates that were done before."""
    prefetched: bool
    """Whether their batch was sampled beforehand."""


class DeferredSlots:
    """Step slots whose steps enter the memory only when no update samples from it."""

    def __init__(self, slots: StepSlots, overlap: Overlap, timer: PhaseTimer) -> None:
        self._slots = slots
        self._overlap = overlap
        self._timer = timer

    def next_slot(self) -> StepSlot:
        """Where the next step goes."""
        return self._slots.next_slot()

    def advance(self) -> None:
        """Store the step, after the updates under way if these sample from the memory."""
        if self._overlap.reads_memory:
            now = self._timer.clock
            begin = now()
            self._overlap.finish_before_storing()
            # The collector counts all of this call as storing.
            self._timer[Phase.STORE].total_ns -= now() - begin
        self._slots.advance()


def check_overlap(*, on_policy: bool, asynchronous: bool, compiled: bool) -> None:
    """Check that collecting and learning can overlap in this run.

    Args:
        on_policy: Whether the algorithm learns from rollouts of its newest policy.
        asynchronous: Whether environments step by themselves.
        compiled: Whether updates are compiled, so that another thread can do them.

    Raises:
        ConfigError: They cannot overlap.
    """
    if on_policy:
        raise ConfigError(
            "--overlap is for algorithms that learn from a replay buffer; a policy gradient needs "
            "what its newest policy has collected. Use --threads 2 instead."
        )
    if asynchronous:
        raise ConfigError(
            "--overlap needs environments that step together, not --backend async, which auto may "
            "choose: use --backend process."
        )
    if not compiled:
        raise ConfigError("--overlap needs the fused engine, which computes beside other threads.")
