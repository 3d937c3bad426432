"""The interfaces of memories: replay buffers and rollout buffers."""

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
        """Bytes allocated when the memory was built."""
        ...

    @property
    def has_room(self) -> Bools:
        """(N,): whether there is room for the environment's next transition."""
        ...

    def write(
        self,
        before: StepBuffers,
        decision: Decision,
        after: StepBuffers,
        ids: Ints | None = None,
    ) -> None:
        """Append one transition per env.

        Args:
            before: The observations and masks acted on.
            decision: The actions.
            after: The rewards, ends and next observations.
            ids: (M,) envs of the first M rows of the buffers; all envs if None.
        """
        ...

    def truncate_episodes(self, now: StepBuffers) -> None:
        """Mark each env's last transition as truncated, with `now` as the final observation.

        Needed before the environments are reset in the middle of an episode.
        """
        ...

    def clear(self) -> None:
        """Remove all data; the memory then behaves like a newly built one."""
        ...

    def state(self) -> State:
        """Everything that is not in the chunks; copies."""
        ...

    def load_state(self, state: State) -> None:
        """Continue from a saved state; its chunks must be loaded after it."""
        ...


class ReplayMemory(Memory, Protocol):
    """A replay buffer: transitions are sampled in any order, and several times."""

    wants_feedback: bool
    """Whether the errors of an update must be passed to `feedback` before the next `sample`."""

    @property
    def capacity(self) -> int:
        """Transitions that the memory holds at most."""
        ...

    @property
    def size(self) -> int:
        """Transitions that can be sampled."""
        ...

    def can_sample(self, batch_size: int) -> bool:
        """Whether there are enough transitions for batches of this size."""
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
        """Report the TD errors (K, B) of the first `updates` batches of `out`."""
        ...


class RolloutMemory(Memory, Protocol):
    """A rollout buffer: T steps of N environments, learned from when they are complete."""

    def next_slot(self) -> StepSlot:
        """The buffers that the next step of all environments is written to."""
        ...

    def advance(self) -> None:
        """Go on to the next slot, after the one from `next_slot` has been written."""
        ...

    @property
    def filled(self) -> Ints:
        """(N,): steps of the present rollout that every env has written."""
        ...

    @property
    def reuses(self) -> bool:
        """Whether past rollouts are learned from again."""
        ...

    def rollouts(self) -> list[Rollout]:
        """The rollouts to learn from, the newest first."""
        ...

    def shuffle(self, rng: np.random.Generator, minibatches: int) -> None:
        """Assign all steps of the rollouts to `minibatches` equal minibatches at random."""
        ...

    def minibatch(self, k: int) -> Minibatch:
        """The k-th minibatch of the last shuffle; views of the memory."""
        ...

    def next_rollout(self) -> None:
        """Begin a new rollout with the last observations of the complete one."""
        ...
