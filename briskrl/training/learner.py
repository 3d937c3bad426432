"""Learning: from the memory to the algorithm, in the way that suits both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from briskrl.algos.base import OffPolicy, OnPolicy
from briskrl.core.counters import Counters
from briskrl.core.phase import Phase, PhaseTimer
from briskrl.core.registry import Registry
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Batch, Minibatch
from briskrl.memory.base import ReplayMemory, RolloutMemory

if TYPE_CHECKING:
    from briskrl.algos.dqn.agent import DQN
    from briskrl.algos.dqn.fused_engine import PackedTask
    from briskrl.memory.prioritized import PrioritizedReplay

MAX_UPDATES_PER_DRAW, MAX_BYTES_PER_DRAW = 32, 64 << 20
"""Bound the batch buffers when many updates are due at once; bytes are those of observations."""

REHEARSED_UPDATES = 16
"""Enough for torch's allocator and thread-local caches to settle."""


class Learner(Protocol):
    """Does the updates that are due."""

    @property
    def batch(self) -> Batch | Minibatch:
        """What the last update learnt from."""
        ...

    @property
    def rehearsal_steps(self) -> int:
        """Vector steps that must be in the memory before `rehearse`."""
        ...

    def learn(self, updates: int) -> None:
        """Do `updates` gradient updates; 0 does nothing."""
        ...

    def rehearse(self) -> None:
        """Go through everything that learning calls, on whatever is in the memory."""
        ...


class ReplayLearner:
    """Draws batches from a replay memory.

    All updates that are due are drawn at once, except from memories whose priorities change with
    every update: those are drawn one by one, so that each draw sees the latest errors. Where the
    updates are compiled, that is done within one compiled call as well, with the same results.
    """

    def __init__(
        self,
        algo: OffPolicy,
        memory: ReplayMemory,
        rng: np.random.Generator,
        timer: PhaseTimer,
        counters: Counters,
        *,
        spec: EnvSpec,
        num_envs: int,
        batch_size: int,
        window: int,
    ) -> None:
        self._algo = algo
        self._memory = memory
        self._rng = rng
        self._timer = timer
        self._counters = counters
        batch_bytes = batch_size * spec.obs.size * spec.obs.dtype.itemsize
        room = max(1, min(MAX_UPDATES_PER_DRAW, MAX_BYTES_PER_DRAW // batch_bytes))
        at_once = not memory.wants_feedback or "fused" in algo.engines.candidates
        self.batch = Batch.allocate(spec, room if at_once else 1, batch_size)
        self._spare: Batch | None = None
        self._allocate = partial(Batch.allocate, spec, len(self.batch.index), batch_size)
        self.rehearsal_steps = window + 2 + -(-batch_size // num_envs)

    def learn(self, updates: int) -> None:
        """Do `updates` gradient updates."""
        left = updates
        while left > 0:
            count = self._learn_some(min(left, len(self.batch.index)))
            self._counters.updates += count
            left -= count

    def draw(self, updates: int) -> Batch | None:
        """Draw for updates to come, while others may still be under way on `batch`.

        Returns:
            What was drawn, for `learn_drawn`; None if draws depend on those updates, or if they do
            not fit into one batch.
        """
        if self._memory.wants_feedback or not 0 < updates <= len(self.batch.index):
            return None
        self._spare = self._spare or self._allocate()
        with self._timer[Phase.SAMPLE]:
            self._memory.sample(self._rng, updates, self._spare)
        return self._spare

    def turn_to_drawn(self) -> None:
        """Have `batch` be what was drawn, and its place free for other draws."""
        assert self._spare is not None
        self.batch, self._spare = self._spare, self.batch

    def learn_drawn(self, updates: int) -> None:
        """Do updates that `draw` has drawn for and `turn_to_drawn` has turned to."""
        with self._timer[Phase.UPDATE]:
            self._algo.update(self.batch, updates, self._counters)
        self._counters.updates += updates

    def prepare_drawn(self, updates: int) -> PackedTask:
        """What a service needs to do such updates; `conclude_drawn` follows these."""
        return cast("DQN", self._algo).prepare(self.batch, updates, self._counters)

    def conclude_drawn(self, updates: int, ns: int) -> None:
        """A service has done such updates in so many nanoseconds."""
        cast("DQN", self._algo).conclude(self.batch, updates)
        self._timer[Phase.UPDATE].add(ns)
        self._counters.updates += updates

    def _learn_some(self, updates: int) -> int:
        """Do at most `updates` updates; returns how many."""
        memory, timer = self._memory, self._timer
        if memory.wants_feedback:
            if self._learn_in_turn(updates):
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

    def _learn_in_turn(self, updates: int) -> bool:
        """Draw, update and feed back again and again in one compiled call, if that can be done."""
        if not getattr(self._algo, "takes_loops", False):
            return False
        # Only these runs need the kernel.
        from briskrl.algos.dqn.kernels.prioritized_updates import update_in_turn

        with self._timer[Phase.UPDATE]:
            memory = cast("PrioritizedReplay", self._memory)
            source = memory.sampler(self._rng, updates, self.batch)
            if source is None:
                return False
            cast("DQN", self._algo).update_by(
                partial(update_in_turn, source), self.batch, updates, self._counters
            )
            memory.sync_back(source)
        return True

    def rehearse(self) -> None:
        """Do a few updates."""
        self.learn(REHEARSED_UPDATES)


class RolloutLearner:
    """Goes over full rollouts in shuffled minibatches, several times, then begins the next one.

    What the environments look like, which all learners are told, it need not know.
    """

    rehearsal_steps = 2

    def __init__(
        self,
        algo: OnPolicy,
        memory: RolloutMemory,
        rng: np.random.Generator,
        timer: PhaseTimer,
        counters: Counters,
        *,
        epochs: int,
        minibatches: int,
        **_: object,
    ) -> None:
        self._algo = algo
        self._memory = memory
        self._rng = rng
        self._timer = timer
        self._counters = counters
        self._epochs = epochs
        self._minibatches = minibatches
        self._last = memory.minibatch(0)

    @property
    def batch(self) -> Minibatch:
        """What the last update learnt from; a copy."""
        return self._last.gathered()

    def learn(self, updates: int) -> None:
        """Go over the rollouts; the algorithm may stop before all updates are done."""
        if not updates:
            return
        self._digest()
        for _ in range(self._epochs):
            if not self._pass_over(updates // self._epochs):
                break
        self._memory.next_rollout()

    def rehearse(self) -> None:
        """Learn from a rollout of which most is still empty."""
        if self._memory.reuses:
            old = replace(self._memory.rollouts()[0], age=1)
            self._algo.compute_advantages([old], self._counters)
        self._digest()
        self._pass_over(self._minibatches, most=REHEARSED_UPDATES)

    def _digest(self) -> None:
        with self._timer[Phase.UPDATE]:
            self._algo.compute_advantages(self._memory.rollouts(), self._counters)

    def _pass_over(self, parts: int, most: int | None = None) -> bool:
        """One pass over all steps in a new order; whether learning should go on."""
        with self._timer[Phase.SAMPLE]:
            self._memory.shuffle(self._rng, parts)
        for k in range(parts if most is None else min(parts, most)):
            self._last = self._memory.minibatch(k)
            with self._timer[Phase.UPDATE]:
                goes_on = self._algo.update(self._last, self._counters)
            if not goes_on:
                return False
            self._counters.updates += 1
        return True


LEARNERS: Registry[Callable[..., Learner]] = Registry("learner")
LEARNERS.add("replay", ReplayLearner)
LEARNERS.add("rollout", RolloutLearner)
