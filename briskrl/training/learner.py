"""Do the updates that are due: from the memory to the algorithm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from briskrl.algos.base import CompiledUpdates
from briskrl.algos.components import OffPolicyComponents, OnPolicyComponents
from briskrl.core.counters import Counters
from briskrl.core.phase import Phase, PhaseTimer
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Batch, Ints, Minibatch

MAX_UPDATES_PER_SAMPLE, MAX_BYTES_PER_SAMPLE = 32, 64 << 20
"""Bounds of the batch buffers when many updates are due at once; bytes are those of obs."""

MAX_UPDATES_PER_ROUND = 1024
"""Bound of the batch buffers with `update_every`, where a whole round is sampled at once."""

WARMUP_UPDATES = 16
"""Enough for torch's allocator and thread-local caches to settle."""


class Learner(Protocol):
    """Does the updates that are due."""

    @property
    def batch(self) -> Batch | Minibatch:
        """The batch of the last update."""
        ...

    @property
    def warmup_steps(self) -> int:
        """Vector steps that must be in the memory before `warm_up`."""
        ...

    def learn(self, updates: int) -> None:
        """Do `updates` gradient updates; 0 does nothing."""
        ...

    def warm_up(self) -> None:
        """Run all code that learning runs, on whatever is in the memory."""
        ...


class OffPolicyLearner:
    """Samples batches from a replay buffer and updates on them.

    All updates that are due are sampled at once, except from memories whose priorities change with
    every update: those are sampled one by one, so that each sample sees the latest TD errors.
    Compiled updates do that within one call, with the same results.
    """

    def __init__(
        self,
        components: OffPolicyComponents,
        rng: np.random.Generator,
        timer: PhaseTimer,
        counters: Counters,
        *,
        spec: EnvSpec,
        num_envs: int,
    ) -> None:
        self._algo, self._memory = components.algo, components.memory
        self._rng = rng
        self._timer = timer
        self._counters = counters
        size = components.batch_size
        batch_bytes = size * spec.obs.size * spec.obs.dtype.itemsize
        per_round = int(components.update_every * num_envs * components.updates_per_step) + 1
        most = MAX_UPDATES_PER_SAMPLE if components.update_every == 1 else per_round
        most = min(MAX_UPDATES_PER_ROUND, max(MAX_UPDATES_PER_SAMPLE, most))
        room = max(1, min(most, MAX_BYTES_PER_SAMPLE // batch_bytes))
        at_once = not self._memory.wants_feedback or "fused" in self._algo.engines.candidates
        self.batch = Batch.allocate(spec, room if at_once else 1, size)
        self._next_batch: Batch | None = None
        self._allocate = partial(Batch.allocate, spec, len(self.batch.index), size)
        self.warmup_steps = components.n_step + 2 + -(-size // num_envs)

    def learn(self, updates: int) -> None:
        """Do `updates` gradient updates."""
        left = updates
        while left > 0:
            count = self._learn_some(min(left, len(self.batch.index)))
            self._counters.updates += count
            left -= count

    def prefetch(self, updates: int) -> Batch | None:
        """Sample for the next updates, while others may still be under way on `batch`.

        Returns:
            The sampled batch; None if it depends on the updates under way, or if the updates do not
            fit into one batch.
        """
        if self._memory.wants_feedback or not 0 < updates <= len(self.batch.index):
            return None
        self._next_batch = self._next_batch or self._allocate()
        with self._timer[Phase.SAMPLE]:
            self._memory.sample(self._rng, updates, self._next_batch)
        return self._next_batch

    def swap_batches(self) -> None:
        """Make the prefetched batch the current `batch`, and free the current one."""
        assert self._next_batch is not None
        self.batch, self._next_batch = self._next_batch, self.batch

    def learn_prefetched(self, updates: int) -> None:
        """Do updates on `batch` that were sampled by `prefetch`."""
        with self._timer[Phase.UPDATE]:
            self._algo.update(self.batch, updates, self._counters)
        self._counters.updates += updates

    def finish_compiled(self, compiled: CompiledUpdates, updates: int, ns: int) -> None:
        """Count updates on `batch` that another thread has done in `ns` nanoseconds."""
        compiled.finish(self.batch, updates)
        self._timer[Phase.UPDATE].add(ns)
        self._counters.updates += updates

    def _learn_some(self, updates: int) -> int:
        """Do at most `updates` updates; returns how many."""
        memory, timer = self._memory, self._timer
        if memory.wants_feedback:
            if self._learn_compiled(updates):
                return updates
            updates = 1
        with timer[Phase.SAMPLE]:
            memory.sample(self._rng, updates, self.batch)
        with timer[Phase.UPDATE]:
            errors = self._algo.update(self.batch, updates, self._counters)
        if memory.wants_feedback:
            with timer[Phase.SAMPLE]:
                memory.feedback(self.batch, updates, errors)
        return updates

    def _learn_compiled(self, updates: int) -> bool:
        """Sample, update and feed back in one compiled call; False if that is not available."""
        compiled = self._algo.compiled_updates
        if compiled is None:
            return False
        with self._timer[Phase.UPDATE]:
            sampler = self._memory.sampler(self._rng, updates, self.batch)
            if sampler is None:
                return False
            compiled.update_prioritized(sampler, self.batch, updates, self._counters)
            self._memory.sync_back(sampler)
        return True

    def warm_up(self) -> None:
        """Do a few updates."""
        self.learn(WARMUP_UPDATES)


class OnPolicyLearner:
    """Goes over full rollouts in shuffled minibatches, several times, then begins the next one."""

    warmup_steps = 2

    def __init__(
        self,
        components: OnPolicyComponents,
        rng: np.random.Generator,
        timer: PhaseTimer,
        counters: Counters,
    ) -> None:
        self._algo, self._memory = components.algo, components.memory
        self._rng = rng
        self._timer = timer
        self._counters = counters
        self._epochs = components.epochs
        self._minibatches = components.minibatches
        self._last = self._memory.minibatch(0)
        replication = components.replication
        self._plan = None if replication is None else replication.plan
        self._orders: list[Ints] = []

    @property
    def batch(self) -> Minibatch:
        """The minibatch of the last update; a copy."""
        return self._last.gathered()

    def learn(self, updates: int) -> None:
        """Do all epochs on the rollouts; the algorithm may stop before all updates are done."""
        if not updates:
            return
        self._compute_advantages()
        minibatches = updates // self._epochs
        if self._plan is not None:
            self._update_on(self._planned(self._epochs, minibatches))
        else:
            for _ in range(self._epochs):
                if not self._run_epoch(minibatches):
                    break
        self._memory.next_rollout()

    def warm_up(self) -> None:
        """Learn from a rollout of which most is still empty."""
        if self._memory.reuses:
            old = replace(self._memory.rollouts()[0], age=1)
            self._algo.compute_advantages([old], self._counters)
        self._compute_advantages()
        if self._plan is not None:
            self._update_on(self._planned(1, self._minibatches)[:WARMUP_UPDATES])
        else:
            self._run_epoch(self._minibatches, most=WARMUP_UPDATES)

    def _compute_advantages(self) -> None:
        with self._timer[Phase.UPDATE]:
            self._algo.compute_advantages(self._memory.rollouts(), self._counters)

    def _run_epoch(self, minibatches: int, most: int | None = None) -> bool:
        """One pass over all steps in a new order; returns whether learning should go on."""
        with self._timer[Phase.SAMPLE]:
            self._memory.shuffle(self._rng, minibatches)
        numbers = range(minibatches if most is None else min(minibatches, most))
        return self._update_on(self._memory.minibatch(k) for k in numbers)

    def _planned(self, epochs: int, minibatches: int) -> list[Minibatch]:
        """The minibatches of all epochs, each in an order of its own, after planning them."""
        assert self._plan is not None
        planned: list[Minibatch] = []
        with self._timer[Phase.SAMPLE]:
            for _ in range(epochs):
                self._memory.shuffle(self._rng, minibatches)
                planned += [self._kept(k, len(planned) + k) for k in range(minibatches)]
        with self._timer[Phase.UPDATE]:
            self._plan(planned)
        return planned

    def _kept(self, k: int, number: int) -> Minibatch:
        """The k-th minibatch, with a copy of its order that the next shuffle does not change."""
        batch = self._memory.minibatch(k)
        assert batch.indices is not None
        if number == len(self._orders):
            self._orders.append(batch.indices.copy())
        if len(self._orders[number]) != len(batch.indices):
            self._orders[number] = batch.indices.copy()
        np.copyto(self._orders[number], batch.indices)
        return replace(batch, indices=self._orders[number])

    def _update_on(self, batches: Iterable[Minibatch]) -> bool:
        """Update on minibatches; returns whether learning should go on."""
        for batch in batches:
            self._last = batch
            with self._timer[Phase.UPDATE]:
                goes_on = self._algo.update(self._last, self._counters)
            if not goes_on:
                return False
            self._counters.updates += 1
        return True
