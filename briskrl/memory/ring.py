"""The arrays of a replay buffer: every observation is stored once, in its own dtype."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod

import numpy as np
from numpy.typing import DTypeLike, NDArray

from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, Bools, Floats, Ints, action_layout
from briskrl.memory.kernels.ring import RingArrays


@dataclass(frozen=True, slots=True)
class Ring:
    """Flat arrays over S slots; slot `row * num_envs + env` holds one transition.

    Arrays that the environment does not need have width 0.
    """

    obs: Array
    """(S, F): observations, or codes (S, W) of observations and masks."""
    action: Array
    """(S, 1) or (S, k) int32 for discrete actions, (S, D) float32 for continuous ones."""
    reward: Floats
    """(S,)"""
    flags: NDArray[np.uint8]
    """(S,): bit 0 terminated, bit 1 truncated."""
    mask: Bools
    """(S, A): legal actions in obs."""
    final_obs: Array
    """(S, F): valid where a transition was truncated and not terminated."""
    final_mask: Bools
    """(S, A): legal actions in final_obs; valid where that is."""

    @classmethod
    def allocate(cls, spec: EnvSpec, slots: int, *, coded: bool = False) -> Ring:
        """Arrays for `slots` transitions, with codes instead of observations if `coded`.

        The pages of arrays that every write touches are committed here, so that resident memory
        does not grow afterwards. Truncations are rare: pages of the final arrays are committed when
        first used.
        """
        num_actions = 0 if coded else spec.mask_width
        action_shape, dtype = action_layout(spec)
        action_dtype: DTypeLike = np.int32 if dtype is np.int64 else dtype
        action_width = prod(action_shape)
        width: int = spec.code_words if coded else spec.obs.size
        obs_dtype: DTypeLike = np.uint64 if coded else spec.obs.dtype
        return cls(
            obs=_committed((slots, width), obs_dtype),
            action=_committed((slots, action_width), action_dtype),
            reward=_committed((slots,), np.float32),
            flags=_committed((slots,), np.uint8),
            mask=_committed((slots, num_actions), np.bool_),
            final_obs=np.zeros((slots, width), obs_dtype),
            final_mask=np.zeros((slots, num_actions), np.bool_),
        )

    def for_kernels(self, cursor: Ints, *, n_step: int, gamma: float) -> RingArrays:
        """The ring as compiled code sees it, with the cursor (2, N) of its envs."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return RingArrays(cursor=cursor, n_step=n_step, gamma=gamma, **arrays)

    @property
    def dense(self) -> dict[str, Array]:
        """The arrays that every write touches, by name; only those that are needed."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: array
            for name, array in arrays.items()
            if array.size and not name.startswith("final_")
        }

    @property
    def sparse(self) -> dict[str, Array]:
        """The arrays of final observations and masks, by name; only those that are needed."""
        arrays = {"final_obs": self.final_obs, "final_mask": self.final_mask}
        return {name: array for name, array in arrays.items() if array.size}


def rows_of(array: Array, rows: int, ring: Array) -> Array:
    """`array` with rows shaped like the ring's.

    Raises:
        ValueError: It has fewer than `rows` rows.
    """
    if len(array) < rows:
        raise ValueError(f"A buffer has {len(array)} rows, but {rows} are to be written.")
    if array.shape[1:] == ring.shape[1:]:
        return array
    return array.reshape(len(array), *ring.shape[1:])


def batches_of(array: Array, ring: Array) -> Array:
    """A field of a batch as (K, B, width), a view."""
    if not array.flags.c_contiguous:
        raise ValueError("The arrays of a batch must be contiguous.")
    if array.shape[2:] == ring.shape[1:]:
        return array
    return array.reshape(*array.shape[:2], ring.shape[1])


def _committed(shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """A zeroed array whose pages are all committed, unlike those of np.zeros."""
    array = np.empty(shape, dtype)
    array.fill(0)
    return array
