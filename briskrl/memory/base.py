"""What a trainer may ask of a memory: of any, of one that replays, of one that holds rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from briskrl.core.types import (
    Batch,
    Bools,
    ChunkSource,
    Decision,
    Floats,
    Ints,
    Minibatch,
    Rollout,
    State,
    StepBuffers,
    StepSlot,
)

if TYPE_CHECKING:
    from briskrl.memory.kernels.prioritized_sampling import PrioritizedSampler


class Memory(ChunkSource, Protocol):
    """Transitions of N environments, written in batches."""

    @property
    def nbytes(self) -> int:
        """Bytes committed when the memory was built."""
        ...

    @property
    def has_room(self) -> Bools:
        """(N,): environments whose next transition there is room for."""
        ...

    def write(
        self,
        before: StepBuffers,
        decision: Decision,
        after: StepBuffers,
        ids: Ints | None = None,
    ) -> None:
        """Append one transition per env: `before` led to `decision`, which led to `after`.

        With `ids` (M,) the first M rows of the buffers belong to these envs.
        """
        ...

    def truncate_episodes(self, now: StepBuffers) -> None:
        """End the episodes under way: each env's last transition is truncated at `now`.

        For environments that are about to begin new episodes of their own accord.
        """
        ...

    def clear(self) -> None:
        """Forget everything; what follows is what a newly built memory would do."""
        ...

    def state(self) -> State:
        """What the chunks do not hold; copies."""
        ...

    def load_state(self, state: State) -> None:
        """Continue from a saved state; its chunks may be loaded before or after."""
        ...


class ReplayMemory(Memory, Protocol):
    """Hands out transitions in any order, again and again."""

    wants_feedback: bool
    """Whether the errors of one update should be known before the next batch is drawn."""

    @property
    def capacity(self) -> int:
        """Transitions the memory has room for."""
        ...

    @property
    def size(self) -> int:
        """Transitions that can be sampled."""
        ...

    def can_sample(self, batch_size: int) -> bool:
        """Whether there is enough for batches of this size."""
        ...

    def sample(self, rng: np.random.Generator, updates: int, out: Batch) -> None:
        """Fill the first `updates` batches of `out`."""
        ...

    def sampler(
        self, rng: np.random.Generator, updates: int, out: Batch
    ) -> PrioritizedSampler | None:
        """What compiled code needs to do `sample` and `feedback` itself, update by update.

        Pass it to `sync_back` afterwards. None if this memory cannot be sampled by compiled code.
        """
        ...

    def sync_back(self, sampler: PrioritizedSampler) -> None:
        """Take over what compiled code has changed in a sampler."""
        ...

    def feedback(self, out: Batch, updates: int, errors: Floats) -> None:
        """Tell the errors (K, B) of the first `updates` batches that `sample` put into `out`."""
        ...


class RolloutMemory(Memory, Protocol):
    """Hands out whole rollouts once they are full."""

    def next_slot(self) -> StepSlot:
        """Where the next step of all environments is to be written."""
        ...

    def advance(self) -> None:
        """The row that `row` gave has been written."""
        ...

    @property
    def reuses(self) -> bool:
        """Whether rollouts are learnt from again beside newer ones."""
        ...

    def rollouts(self) -> list[Rollout]:
        """What there is to learn from, the newest first."""
        ...

    def shuffle(self, rng: np.random.Generator, parts: int) -> None:
        """Deal all steps of the rollouts out to so many equal parts at random."""
        ...

    def minibatch(self, k: int) -> Minibatch:
        """The k-th part of what was dealt last, in views of the memory."""
        ...

    def next_rollout(self) -> None:
        """Begin a new rollout where the full one ended."""
        ...
