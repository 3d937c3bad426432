"""The uniform replay buffer: batched writes; n-step returns are computed when sampling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.compiler.packed_args import PackedArgs
from briskrl.core.errors import InvalidStateError
from briskrl.core.spec import EnvSpec
from briskrl.core.state_checks import (
    LARGEST_COUNT,
    check_not_diverged,
    check_range,
    loaded,
    short,
    whole,
)
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
from briskrl.memory.chunks import RingChunks
from briskrl.memory.codec_buffers import CodecBuffers, codes_of
from briskrl.memory.frame_stacks import FrameStacks
from briskrl.memory.kernels import ring as ring_kernels
from briskrl.memory.ring import Ring, batches_of, rows_of
from briskrl.memory.state_check import loaded_cursor

MAX_BOUND = 8
"""Sets of step buffers whose kernel arguments are cached; a collector uses two."""


class ReplayBuffer:
    """The last transitions of N environments, sampled uniformly with replacement.

    The k-th transition of env e is stored in row k % T of column e. It can be sampled as soon as
    transition k + n_step of that env is written, which holds the observation at the end of its
    n-step window, and until it is overwritten.

    Args:
        spec: Observations and actions of the environments.
        num_envs: N.
        capacity: Transitions to hold; rounded up to T whole rows of N, at least n_step + 2 of them.
        n_step: Rewards summed before bootstrapping.
        gamma: Discount per step.
        codec: If given, codes are stored instead of observations and masks, and decoded by it when
            transitions are sampled.
    """

    wants_feedback = False

    def __init__(
        self,
        *,
        spec: EnvSpec,
        num_envs: int,
        capacity: int,
        n_step: int,
        gamma: float,
        codec: ObsCodec | None = None,
    ) -> None:
        if min(num_envs, capacity, n_step) < 1:
            raise ValueError("num_envs, capacity and n_step must be at least 1.")
        self.num_envs = num_envs
        self.num_rows = max(-(-capacity // num_envs), n_step + 2)
        self.n_step = n_step
        self.gamma = float(gamma)
        self._frames = None
        if codec is None and spec.frame_stack > 1:
            self._frames = FrameStacks(spec, num_envs)
            spec = self._frames.spec
        self._codec_buffers = None if codec is None else CodecBuffers(codec, spec.code_words)
        self.ring = Ring.allocate(spec, self.num_rows * num_envs, coded=codec is not None)
        self.cursor: Ints = np.zeros((2, num_envs), np.int64)
        """(2, N): next row and number of writes of every env."""
        self._counts: Ints = self.cursor[ring_kernels.COUNT]
        self.arrays = self.ring.for_kernels(self.cursor, n_step=n_step, gamma=self.gamma)
        """The ring as compiled code sees it."""
        self._packed_ring = PackedArgs(self.arrays)
        self._chunks = RingChunks(
            self.ring, num_rows=self.num_rows, num_envs=num_envs, spec=spec, codec=codec
        )
        self._versions_seen = False
        self._size = 0
        self.all_envs: Ints = np.arange(num_envs, dtype=np.int64)
        """(N,): the ids of all envs."""
        self._accepts: Bools = np.ones(num_envs, np.bool_)
        self._scratch: Ints = np.zeros(num_envs, np.int64)
        self._ids_seen: Bools = np.zeros(num_envs, np.bool_)
        self._no_mask: Bools = np.zeros((0, 0), np.bool_)
        self._no_masks: Bools = np.zeros((0, 0, 0), np.bool_)
        self._draws: NDArray[np.float64] = np.zeros((0, 0))
        self._bound: dict[tuple[int, int, int], tuple[tuple[Any, ...], tuple[Any, ...]]] = {}

    @property
    def capacity(self) -> int:
        """Transitions that the ring holds at most, after rounding up."""
        return self.num_rows * self.num_envs

    @property
    def size(self) -> int:
        """Transitions that can be sampled."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes allocated at construction; pages of final observations are added when used."""
        return sum(array.nbytes for array in self.ring.dense.values())

    @property
    def has_room(self) -> Bools:
        """(N,): always True, as old transitions are overwritten."""
        return self._accepts

    def can_sample(self, batch_size: int) -> bool:
        """Whether `batch_size` transitions, or as many as there can ever be, can be sampled.

        The newest n_step transitions of each env cannot be sampled, so there are never as many as
        the capacity.
        """
        largest = self.num_envs * (self.num_rows - self.n_step)
        return self._size >= max(1, min(batch_size, largest))

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
            after: The rewards, ends and final observations. The fields of these three records must
                not be assigned new arrays, because kernel arguments are cached by record.
            ids: (M,) distinct envs of the first M rows of the buffers; all envs if None.

        Raises:
            ValueError: The buffers or ids do not fit this memory; nothing has been written.
        """
        if ids is not None:
            arguments = self._arguments(before, decision, after, self._check_ids(ids))
        else:
            if self._frames is not None:
                # The bound arguments hold copies of the newest frames.
                self._obs_of(before)
                self._final_obs_of(after)
            arguments = self._bound_arguments(before, decision, after)
        if self._codec_buffers is not None and after.truncated.any():
            raise ValueError(
                "Truncated episodes cannot be stored as codes: final observations have none."
            )
        self._size += ring_kernels.write_rows(*arguments)

    def sample(self, rng: np.random.Generator, updates: int, out: Batch) -> None:
        """Fill the first `updates` batches of `out`, with replacement.

        Raises:
            ValueError: Nothing can be sampled yet, or `out` has room for fewer updates.
        """
        draws = self.draw(rng, updates, out)
        ring_kernels.choose_uniform(
            self._packed_ring,
            draws,
            self._size,
            updates,
            self._scratch,
            out.index,
            out.weight,
        )
        self.gather(updates, out)

    def feedback(self, out: Batch, updates: int, errors: Floats) -> None:
        """Nothing to do: sampling is uniform."""

    def sampler(self, rng: np.random.Generator, updates: int, out: Batch) -> None:
        """Uniform batches do not depend on updates, so they are sampled beforehand."""

    def sync_back(self, sampler: object) -> None:
        """There are no samplers."""

    def draw(self, rng: np.random.Generator, updates: int, out: Batch) -> NDArray[np.float64]:
        """Uniform numbers (K, B) in [0, 1) for `updates` batches, valid until the next call.

        Raises:
            ValueError: Nothing can be sampled yet, or `out` has room for fewer updates.
        """
        if self._size == 0:
            raise ValueError("The memory holds no complete transition yet; check can_sample first.")
        if not 0 <= updates <= len(out.index):
            raise ValueError(f"Room for {len(out.index)} updates, not for {updates}.")
        if self._draws.shape != out.index.shape:
            self._draws = np.zeros(out.index.shape)
        rng.random(out=self._draws[:updates])
        return self._draws

    def gather(self, updates: int, out: Batch) -> None:
        """Fill the first `updates` batches with the transitions at `out.index`.

        All of them must be transitions that can be sampled.
        """
        ring, codec_buffers, frames = self.ring, self._codec_buffers, self._frames
        if frames is not None:
            obs, next_obs = frames.buffers(out)
        elif codec_buffers is None:
            obs, next_obs = batches_of(out.obs, ring.obs), batches_of(out.next_obs, ring.obs)
        else:
            obs, next_obs = codec_buffers.buffers(out)
        ring_kernels.gather(
            self._packed_ring,
            updates,
            out.index,
            obs,
            batches_of(out.action, ring.action),
            out.reward,
            next_obs,
            out.discount,
            self._mask_out(out),
        )
        if codec_buffers is not None:
            codec_buffers.decode(updates, out)
        if frames is not None:
            frames.fill(self._packed_ring, updates, out)

    def views(self, out: Batch) -> dict[str, Array] | None:
        """The fields of `out` as arrays for kernels; None if the ring stores something else."""
        if self._codec_buffers is not None or self._frames is not None:
            return None
        ring = self.ring
        return {
            "obs": batches_of(out.obs, ring.obs),
            "action": batches_of(out.action, ring.action),
            "reward": out.reward,
            "next_obs": batches_of(out.next_obs, ring.obs),
            "discount": out.discount,
            "next_mask": self._mask_out(out),
        }

    def truncate_episodes(self, now: StepBuffers) -> None:
        """Mark each env's last transition as truncated, with `now` as the final observation."""
        ring = self.ring
        envs = np.flatnonzero(self._counts)
        rows = (self.cursor[ring_kernels.HEAD, envs] - 1) % self.num_rows
        slots = rows * self.num_envs + envs
        under_way = ring.flags[slots] == 0
        slots, envs = slots[under_way], envs[under_way]
        ring.flags[slots] = ring_kernels.TRUNCATED
        ring.final_obs[slots] = rows_of(self._obs_of(now), self.num_envs, ring.obs)[envs]
        if ring.mask.shape[1]:
            ring.final_mask[slots] = self._mask_of(now.mask, self.num_envs)[envs]

    def clear(self) -> None:
        """Remove all data; the memory then behaves like a newly built one.

        The ring keeps its stale contents: a slot is read only after it was written again. Chunk
        versions start again from 0 unless they were read, because a checkpoint could then take new
        data for old.
        """
        if self._versions_seen:
            self._chunks.base[...] = self._chunks.versions(self._counts)
        self.cursor.fill(0)
        self._size = 0

    def state(self) -> State:
        """Cursors, and with them the chunk versions; copies."""
        self._versions_seen = True
        arrays: dict[str, Array] = {
            "cursor": self.cursor.copy(),
            "version_base": self._chunks.base.copy(),
        }
        return State(arrays=arrays, scalars=self._shape())

    def load_state(self, state: State) -> None:
        """Continue from a saved state; its chunks must be loaded after it.

        Raises:
            InvalidStateError: The state is that of a memory of another shape, or impossible.
        """
        self.check_shape(state)
        cursor = loaded_cursor(state.arrays, self.cursor, self.num_rows)
        rows = whole(state.scalars, "chunk_rows")
        base = loaded(state.arrays, "version_base", self._chunks.zero_base(rows))
        check_range("version_base", base, 0, LARGEST_COUNT)
        self.cursor[...] = cursor
        self._chunks.load_base(rows, base)
        self._versions_seen = True
        written = np.minimum(self._counts, self.num_rows)
        self._size = int(np.maximum(written - self.n_step, 0).sum())

    def check_shape(self, state: State) -> None:
        """Check that a state is that of a memory like this one.

        Raises:
            InvalidStateError: It is that of a memory of another shape.
        """
        # The chunks may have another size; that of the saved memory is kept.
        rows = max(1, whole(state.scalars, "chunk_rows"))
        wanted = {**self._shape(), "chunk_rows": rows}
        found = {key: state.scalars.get(key) for key in wanted}
        if found != wanted:
            raise InvalidStateError(
                f"a memory saved as {short(found)} cannot continue as {self._shape()}"
            )

    def chunk_versions(self) -> Mapping[str, int]:
        """Names of the chunks that hold data, with a number that grows on every change."""
        self._versions_seen = True
        return self._chunks.names(self._counts)

    def read_chunk(self, name: str) -> Mapping[str, Array]:
        """The arrays of one chunk; views, valid until the next write.

        Raises:
            DivergedError: A reward or an observation is not finite.
        """
        arrays = self._chunks.read(name, self._counts)
        check_not_diverged("replay buffer", arrays)
        return arrays

    def load_chunk(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Restore what `read_chunk` returned.

        Raises:
            InvalidStateError: The arrays do not belong to this chunk of a memory of this shape, or
                hold impossible numbers; the memory is as it was.
        """
        self._chunks.load(name, arrays)

    def _bound_arguments(
        self, before: StepBuffers, decision: Decision, after: StepBuffers
    ) -> tuple[Any, ...]:
        """The cached kernel arguments of a write for all envs."""
        key = (id(before), id(decision), id(after))
        found = self._bound.get(key)
        if found is None:
            if len(self._bound) >= MAX_BOUND:
                self._bound.clear()
            arguments = self._arguments(before, decision, after, self.all_envs)
            # Keep the buffers alive: their ids are unique only as long as they are.
            found = self._bound[key] = (arguments, (before, decision, after))
        return found[0]

    def _arguments(
        self, before: StepBuffers, decision: Decision, after: StepBuffers, ids: Ints
    ) -> tuple[Any, ...]:
        ring, rows = self.ring, len(ids)
        return (
            self._packed_ring,
            ids,
            rows_of(self._obs_of(before), rows, ring.obs),
            rows_of(decision.action, rows, ring.action),
            self._mask_of(before.mask, rows),
            rows_of(after.reward, rows, ring.reward),
            rows_of(after.terminated, rows, ring.flags),
            rows_of(after.truncated, rows, ring.flags),
            rows_of(self._final_obs_of(after), rows, ring.obs),
            self._mask_of(after.final_mask, rows),
        )

    def _check_ids(self, ids: Ints | None) -> Ints:
        """The envs of a write: `ids`, or all of them.

        Raises:
            ValueError: An id is out of range or occurs twice.
        """
        if ids is None:
            return self.all_envs
        if not ring_kernels.ids_are_distinct(ids, self._ids_seen):
            raise ValueError(f"ids must be distinct and from 0 to {self.num_envs - 1}.")
        return ids

    def _shape(self) -> dict[str, int]:
        return {
            "num_envs": self.num_envs,
            "num_rows": self.num_rows,
            "n_step": self.n_step,
            "chunk_rows": self._chunks.rows,
        }

    def _obs_of(self, buffers: StepBuffers) -> Array:
        """What the ring stores of observations: themselves, their newest frames or their codes."""
        if self._frames is not None:
            return self._frames.newest(buffers.obs, "obs")
        return buffers.obs if self._codec_buffers is None else codes_of(buffers)

    def _final_obs_of(self, buffers: StepBuffers) -> Array:
        """Final observations; with codes a placeholder, because no episode is truncated."""
        if self._frames is not None:
            return self._frames.newest(buffers.final_obs, "final_obs")
        return buffers.final_obs if self._codec_buffers is None else codes_of(buffers)

    def _mask_of(self, mask: Bools | None, rows: int) -> Bools:
        """A step buffer's mask, or an empty placeholder if the ring stores none."""
        if not self.ring.mask.shape[1]:
            return self._no_mask
        if mask is None:
            raise ValueError("This environment has masks, but the step buffers carry none.")
        return rows_of(mask, rows, self.ring.mask)

    def _mask_out(self, out: Batch) -> Array:
        """The next_mask of a batch, or an empty placeholder if the ring stores none."""
        if not self.ring.mask.shape[1]:
            return self._no_masks
        if out.next_mask is None:
            raise ValueError("This environment has masks, but the batch has no room for them.")
        return batches_of(out.next_mask, self.ring.mask)
