"""Prioritized experience replay (Schaul 2016, https://arxiv.org/abs/1511.05952).

It stores transitions in a ReplayBuffer and chooses the slots to sample with a sum tree.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import InvalidStateError
from briskrl.core.spec import EnvSpec
from briskrl.core.state_checks import check_range, loaded, real, whole
from briskrl.core.types import (
    Array,
    Batch,
    Bools,
    Decision,
    Floats,
    Ints,
    ObsCodec,
    State,
    StepBuffers,
)
from briskrl.memory.kernels import sum_tree
from briskrl.memory.kernels.prioritized_sampling import PrioritizedSampler
from briskrl.memory.kernels.ring import COUNT
from briskrl.memory.replay import ReplayBuffer
from briskrl.memory.state_check import loaded_cursor, sampleable_slots

ERROR_OFFSET = 1e-6
"""Added to every absolute TD error, so that all transitions can be sampled."""
FIRST_PRIORITY = 1.0
"""Priority of new transitions before the first error is known."""
LARGEST_PRIORITY = 1e200
"""Saved priorities above this are refused: sums of them could overflow."""


class PrioritizedReplay:
    """The last transitions of N environments, sampled in proportion to error**alpha.

    A transition gets the largest priority so far when its n-step window is complete. Only the
    leaves of the sum tree are saved: they determine all other nodes exactly.

    Args:
        spec: Observations and actions of the environments.
        num_envs: N.
        capacity: Transitions to hold; rounded as in ReplayBuffer.
        n_step: Rewards summed before bootstrapping.
        gamma: Discount per step.
        alpha: Exponent of the errors; 0 is uniform.
        beta: Exponent of the importance weights at the first write.
        beta_steps: Transitions over which beta rises linearly to 1; if None, the caller may set
            the attribute `beta`.
        codec: As in ReplayBuffer.
    """

    wants_feedback = True

    def __init__(
        self,
        *,
        spec: EnvSpec,
        num_envs: int,
        capacity: int,
        n_step: int,
        gamma: float,
        alpha: float,
        beta: float = 1.0,
        beta_steps: int | None = None,
        codec: ObsCodec | None = None,
    ) -> None:
        self._replay = ReplayBuffer(
            spec=spec,
            num_envs=num_envs,
            capacity=capacity,
            n_step=n_step,
            gamma=gamma,
            codec=codec,
        )
        self.alpha = float(alpha)
        self.beta = float(beta)
        """Exponent of the importance weights in the next sample."""
        self._first_beta = self.beta
        self._beta_steps = beta_steps
        self._written = 0
        self._num_leaves = 1 << (self.capacity - 1).bit_length()
        self._tree: NDArray[np.float64] = np.empty(2 * self._num_leaves)
        self._tree.fill(0)
        self._largest = FIRST_PRIORITY

    @property
    def capacity(self) -> int:
        """Transitions that the ring holds at most, after rounding up."""
        return self._replay.capacity

    @property
    def size(self) -> int:
        """Transitions that can be sampled."""
        return self._replay.size

    @property
    def nbytes(self) -> int:
        """Bytes allocated at construction, with the tree."""
        return self._replay.nbytes + self._tree.nbytes

    @property
    def has_room(self) -> Bools:
        """(N,): always True, as old transitions are overwritten."""
        return self._replay.has_room

    @property
    def priorities(self) -> NDArray[np.float64]:
        """(S,) priority of every slot, 0 if it cannot be sampled; a view of the tree."""
        return self._tree[self._num_leaves : self._num_leaves + self.capacity]

    def can_sample(self, batch_size: int) -> bool:
        """Whether `batch_size` transitions, or as many as there can ever be, can be sampled."""
        return self._replay.can_sample(batch_size)

    def write(
        self,
        before: StepBuffers,
        decision: Decision,
        after: StepBuffers,
        ids: Ints | None = None,
    ) -> None:
        """Append one transition per env; arguments and errors as in ReplayBuffer.write."""
        replay = self._replay
        replay.write(before, decision, after, ids)
        ids = replay.all_envs if ids is None else ids
        sum_tree.admit(
            self._tree, replay.cursor, ids, replay.num_rows, replay.n_step, self._largest
        )
        self._written += len(ids)
        if self._beta_steps is not None:
            share = min(1.0, self._written / self._beta_steps)
            self.beta = self._first_beta + (1.0 - self._first_beta) * share

    def sample(self, rng: np.random.Generator, updates: int, out: Batch) -> None:
        """Fill the first `updates` batches of `out`, stratified: one from each B-th of the total.

        Raises:
            ValueError: Nothing can be sampled yet, or `out` has room for fewer updates.
        """
        draws = self._replay.draw(rng, updates, out)
        sum_tree.choose_prioritized(self._tree, draws, updates, self.beta, out.index, out.weight)
        self._replay.gather(updates, out)

    def feedback(self, out: Batch, updates: int, errors: Floats) -> None:
        """Set the priorities of the first `updates` batches from their TD errors (K, B).

        If a transition occurs twice, its last error counts. Non-finite errors change nothing.

        Raises:
            ValueError: There are fewer errors than transitions.
        """
        if errors.shape[1] != out.index.shape[1] or not updates <= len(errors) <= len(out.index):
            raise ValueError(f"Errors {errors.shape} do not fit {updates} x {out.index.shape[1]}.")
        self._largest = sum_tree.update_priorities(
            self._tree, out.index, errors, updates, self.alpha, ERROR_OFFSET, self._largest
        )

    def sampler(
        self, rng: np.random.Generator, updates: int, out: Batch
    ) -> PrioritizedSampler | None:
        """What compiled code needs to do `sample` and `feedback` itself, update by update.

        Pass it to `sync_back` afterwards. None if observations are stored as codes, which only
        their codec can decode.
        """
        views = self._replay.views(out)
        if views is None:
            return None
        return PrioritizedSampler(
            tree=self._tree,
            draws=self._replay.draw(rng, updates, out),
            beta=self.beta,
            alpha=self.alpha,
            offset=ERROR_OFFSET,
            largest=np.array([self._largest]),
            ring=self._replay.arrays,
            index=out.index,
            weight=out.weight,
            **views,
        )

    def sync_back(self, sampler: PrioritizedSampler) -> None:
        """Take over what compiled code has changed in a sampler."""
        self._largest = float(sampler.largest[0])

    def truncate_episodes(self, now: StepBuffers) -> None:
        """Mark each env's last transition as truncated, with `now` as the final observation."""
        self._replay.truncate_episodes(now)

    def clear(self) -> None:
        """Remove all data; the memory then behaves like a newly built one.

        The tree has to be zeroed, because stale leaves would count in its sums.
        """
        self._replay.clear()
        self._tree.fill(0)
        self._largest = FIRST_PRIORITY
        self._written = 0
        self.beta = self._first_beta

    def state(self) -> State:
        """Cursors, chunk versions and priorities; copies."""
        state = self._replay.state()
        state.arrays["priorities"] = self.priorities.copy()
        state.scalars.update(largest=self._largest, beta=self.beta, written=self._written)
        return state

    def load_state(self, state: State) -> None:
        """Continue from a saved state; its chunks must be loaded after it.

        Raises:
            InvalidStateError: The state is that of a memory of another shape, or impossible.
        """
        self._replay.check_shape(state)
        priorities = loaded(state.arrays, "priorities", self.priorities)
        check_range("priorities", priorities, 0.0, LARGEST_PRIORITY)
        largest = real(state.scalars, "largest", FIRST_PRIORITY, LARGEST_PRIORITY)
        beta = real(state.scalars, "beta", 0.0)
        written = whole(state.scalars, "written")
        replay = self._replay
        cursor = loaded_cursor(state.arrays, replay.cursor, replay.num_rows)
        possible = sampleable_slots(cursor[COUNT], replay.num_rows, replay.n_step)
        if ((priorities > 0) != possible).any():
            raise InvalidStateError("priorities and cursor disagree on what can be sampled")
        replay.load_state(state)
        self.priorities[...] = priorities
        sum_tree.rebuild(self._tree)
        self._largest, self.beta, self._written = largest, beta, written

    def chunk_versions(self) -> Mapping[str, int]:
        """Names of the chunks that hold data, with a number that grows on every change."""
        return self._replay.chunk_versions()

    def read_chunk(self, name: str) -> Mapping[str, Array]:
        """The arrays of one chunk; views, valid until the next write."""
        return self._replay.read_chunk(name)

    def load_chunk(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Restore what `read_chunk` returned."""
        self._replay.load_chunk(name, arrays)
