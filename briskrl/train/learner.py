"""Learning: draw batches from the memory and hand them to the algorithm."""

from __future__ import annotations

import numpy as np

from briskrl.algos.base import OffPolicy
from briskrl.core.clock import Clock
from briskrl.core.phase import Phase, PhaseTimer
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Batch
from briskrl.memory.base import Memory

MAX_UPDATES_PER_DRAW = 32
"""Bounds the batch buffers when many updates are due at once."""


class Learner:
    """Does the updates that are due.

    All of them are drawn at once, except from memories whose priorities change with every update:
    those are drawn one by one, so that each draw sees the latest errors.
    """

    def __init__(
        self,
        algo: OffPolicy,
        memory: Memory,
        rng: np.random.Generator,
        timer: PhaseTimer,
        clock: Clock,
        *,
        spec: EnvSpec,
        batch_size: int,
    ) -> None:
        self._algo = algo
        self._memory = memory
        self._rng = rng
        self._timer = timer
        self._clock = clock
        self._most = 1 if memory.wants_feedback else MAX_UPDATES_PER_DRAW
        self.batch = Batch.allocate(spec, self._most, batch_size)

    def learn(self, updates: int) -> None:
        """Do `updates` gradient updates."""
        left = updates
        while left > 0:
            count = min(left, self._most)
            with self._timer[Phase.SAMPLE]:
                self._memory.sample(self._rng, count, self.batch)
            with self._timer[Phase.UPDATE]:
                errors = self._algo.update(self.batch, count, self._clock)
            if self._memory.wants_feedback:
                with self._timer[Phase.SAMPLE]:
                    self._memory.feedback(self.batch, count, errors)
            self._clock.updates += count
            left -= count
