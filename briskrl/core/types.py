"""Records of arrays that environments, memories and algorithms exchange.

All arrays are structure-of-arrays with the environment index first. The code that allocates a
record owns its arrays; all other code writes into them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from briskrl.core.spec import BoxSpec, EnvSpec, MultiDiscreteSpec, SubsetSpec

Array = NDArray[Any]
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
JSON = Any
"""Any value that `json` can write."""


@dataclass(slots=True)
class StepBuffers:
    """The results of one step of N environments.

    A mask row that is False everywhere means that no action is legal; then every action is treated
    as legal, because some action must be taken.
    """

    obs: Array
    """(N, *obs): the next observation; the first one of the new episode where one ended."""
    reward: Floats
    """(N,)"""
    terminated: Bools
    """(N,): the episode ended in a terminal state; values do not bootstrap."""
    truncated: Bools
    """(N,): the episode was cut off; values bootstrap from final_obs."""
    final_obs: Array
    """(N, *obs): the last observation of the ended episode; valid where one ended."""
    mask: Bools | None = None
    """(N, A): legal actions in obs."""
    final_mask: Bools | None = None
    """(N, A): legal actions in final_obs; valid where an episode ended."""
    code: Array | None = None
    """(N, W) uint64: codes from which obs and mask can be rebuilt, if the environment has them."""

    @classmethod
    def allocate(cls, spec: EnvSpec, num_envs: int) -> StepBuffers:
        """Zeroed buffers for `num_envs` environments of this spec."""
        obs_shape = (num_envs, *spec.obs.shape)
        masks: list[Bools | None] = [None, None]
        if spec.has_mask:
            masks = [np.ones((num_envs, spec.mask_width), np.bool_) for _ in masks]
        return cls(
            obs=aligned_zeros(obs_shape, spec.obs.dtype),
            reward=np.zeros(num_envs, np.float32),
            terminated=np.zeros(num_envs, np.bool_),
            truncated=np.zeros(num_envs, np.bool_),
            final_obs=aligned_zeros(obs_shape, spec.obs.dtype),
            mask=masks[0],
            final_mask=masks[1],
            code=aligned_zeros((num_envs, spec.code_words), np.uint64) if spec.code_words else None,
        )


@dataclass(slots=True)
class Decision:
    """The actions of a policy for N environments."""

    action: Array
    """(N,) int64 for discrete actions, (N, D) int64 for several at once, (N, D) float32 for
    continuous ones."""
    log_prob: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    """(N,): log probability under the policy that acted; unused by value-based policies."""

    @classmethod
    def allocate(cls, spec: EnvSpec, num_envs: int) -> Decision:
        """Zeroed decisions for `num_envs` environments of this spec."""
        shape, dtype = action_layout(spec)
        return cls(aligned_zeros((num_envs, *shape), dtype), aligned_zeros((num_envs,), np.float32))


def action_layout(spec: EnvSpec) -> tuple[tuple[int, ...], type[np.int64] | type[np.float32]]:
    """Shape and dtype of one environment's action."""
    action = spec.action
    if isinstance(action, BoxSpec):
        return action.shape, np.float32
    if isinstance(action, MultiDiscreteSpec):
        return (len(action.nvec),), np.int64
    if isinstance(action, SubsetSpec):
        return (action.k,), np.int64
    return (), np.int64


@dataclass(slots=True)
class StepSlot:
    """Where one vector step is written: observations, actions and results."""

    before: StepBuffers
    """obs and mask are read; the other fields belong to the step before."""
    decision: Decision
    after: StepBuffers


@dataclass(slots=True)
class Batch:
    """K batches of B transitions, sampled for K consecutive gradient updates."""

    obs: Array
    """(K, B, *obs)"""
    action: Ints
    """(K, B), or (K, B, k) for subsets."""
    reward: Floats
    """(K, B): n-step return, discounted inside the window."""
    next_obs: Array
    """(K, B, *obs): where the window ends; arbitrary where discount is 0."""
    discount: Floats
    """(K, B): gamma**m of an m-step window, 0 where the episode terminated inside it."""
    weight: Floats
    """(K, B): importance weights; ones for uniform sampling."""
    index: Ints
    """(K, B): indices of the transitions in the memory, for feedback."""
    next_mask: Bools | None = None
    """(K, B, A): legal actions in next_obs."""

    @classmethod
    def allocate(cls, spec: EnvSpec, updates: int, batch_size: int) -> Batch:
        """Zeroed buffers for `updates` batches of `batch_size` transitions."""
        lead = (updates, batch_size)
        mask = None
        if spec.has_mask:
            mask = np.ones((*lead, spec.mask_width), np.bool_)
        return cls(
            obs=aligned_zeros((*lead, *spec.obs.shape), spec.obs.dtype),
            action=aligned_zeros((*lead, *action_layout(spec)[0]), np.int64),
            reward=aligned_zeros(lead, np.float32),
            next_obs=aligned_zeros((*lead, *spec.obs.shape), spec.obs.dtype),
            discount=aligned_zeros(lead, np.float32),
            weight=np.ones(lead, np.float32),
            index=aligned_zeros(lead, np.int64),
            next_mask=mask,
        )


@dataclass(slots=True)
class Rollout:
    """T steps of N environments in order, with advantages and returns.

    Arrays are views of the rollout buffer. All of them have a row T, so that one flat index
    t * N + n serves them all; row T holds the observation, mask and value after the last step and
    is undefined in the other arrays.
    """

    obs: Array
    """(T + 1, N, *obs)"""
    action: Array
    """(T + 1, N) or (T + 1, N, D)"""
    behavior_log_prob: Floats
    """(T + 1, N): log probability of the actions under the policy that collected them."""
    reward: Floats
    """(T + 1, N)"""
    terminated: Bools
    """(T + 1, N)"""
    truncated: Bools
    """(T + 1, N)"""
    final_obs: Array
    """(T + 1, N, *obs): valid where an episode ended."""
    mask: Bools | None
    """(T + 1, N, A): legal actions in obs."""
    old_log_prob: Floats
    """(T + 1, N): log probability under the policy before the updates; set by the algorithm."""
    weight: Floats
    """(T + 1, N): truncated importance weights, ones for the newest rollout; likewise."""
    value: Floats
    """(T + 1, N): value estimates of obs; likewise."""
    advantage: Floats
    """(T + 1, N): likewise."""
    returns: Floats
    """(T + 1, N): targets of the value function; likewise."""
    age: int = 0
    """Number of rollouts collected since."""
    final_mask: Bools | None = None
    """(T + 1, N, A): legal actions in final_obs, if the rollout buffer keeps them."""


@dataclass(slots=True)
class Minibatch:
    """B steps of rollouts, for one gradient update: all of M, or those at `indices`."""

    obs: Array
    """(M, *obs)"""
    action: Array
    """(M,) or (M, D)"""
    old_log_prob: Floats
    """(M,): see Rollout, as are the others."""
    weight: Floats
    """(M,)"""
    value: Floats
    """(M,)"""
    advantage: Floats
    """(M,)"""
    returns: Floats
    """(M,)"""
    mask: Bools | None = None
    """(M, A)"""
    indices: Ints | None = None
    """(B,): ascending indices of the steps; None for all of them."""

    @classmethod
    def allocate(cls, spec: EnvSpec, size: int) -> Minibatch:
        """Zeroed buffers for `size` steps."""
        shape, dtype = action_layout(spec)
        old_log_prob, weight, value, advantage, returns = aligned_zeros((5, size), np.float32)
        mask = None
        if spec.has_mask:
            mask = np.ones((size, spec.mask_width), np.bool_)
        return cls(
            obs=aligned_zeros((size, *spec.obs.shape), spec.obs.dtype),
            action=aligned_zeros((size, *shape), dtype),
            old_log_prob=old_log_prob,
            weight=weight,
            value=value,
            advantage=advantage,
            returns=returns,
            mask=mask,
        )

    @property
    def size(self) -> int:
        """B."""
        return len(self.weight if self.indices is None else self.indices)

    def gathered(self, out: Minibatch | None = None) -> Minibatch:
        """A batch of the steps at `indices` alone; this batch itself if it is all of them.

        Args:
            out: Where to put them, in its first rows if it is larger; new arrays if absent.

        Returns:
            A batch of B steps; `out` itself if it is as large.
        """
        indices, found = self.indices, {}
        if indices is None:
            return self
        for name in MINIBATCH_FIELDS:
            array = getattr(self, name)
            if array is not None:
                room = None if out is None else getattr(out, name)[: len(indices)]
                # Every index is in range; "clip" only avoids a buffered copy in NumPy.
                found[name] = np.take(array, indices, axis=0, out=room, mode="clip")
        return out if out is not None and out.size == len(indices) else Minibatch(**found)


MINIBATCH_FIELDS = (
    "obs",
    "action",
    "old_log_prob",
    "weight",
    "value",
    "advantage",
    "returns",
    "mask",
)
"""The arrays of a minibatch."""


@dataclass(slots=True)
class EpisodeStats:
    """Episodes that finished since the last drain, in order of finishing."""

    env: NDArray[np.int32]
    """Index of the environment."""
    steps: NDArray[np.int32]
    """Length of the episode."""
    returns: Floats
    """Sum of its rewards."""
    score: Floats
    """The environment's own score; the return where it has none."""
    won: Bools
    """Whether the task was solved completely."""
    cause: NDArray[np.uint8]
    """Why the episode ended, in the environment's own codes."""

    @property
    def count(self) -> int:
        """Number of episodes."""
        return len(self.env)

    @classmethod
    def joined(cls, parts: Sequence[EpisodeStats]) -> EpisodeStats:
        """The episodes of one or more drains, in order; no copy if only one of them has any."""
        filled = [part for part in parts if part.count] or parts[:1]
        if len(filled) == 1:
            return filled[0]
        return cls(
            *(
                np.concatenate([getattr(part, name) for part in filled])
                for name in cls.__match_args__
            )
        )


@dataclass(slots=True)
class State:
    """The saved state of one object: arrays by name and JSON scalars."""

    arrays: dict[str, Array] = field(default_factory=dict)
    scalars: dict[str, JSON] = field(default_factory=dict)


class ObsCodec(Protocol):
    """Rebuilds observations from codes, so that a memory can store codes only.

    A codec decodes the codes of all environments with the same settings.
    """

    def check_codes(self, name: str, codes: Array) -> None:
        """Check codes (B, W) that come from a file, before they are decoded.

        Raises:
            InvalidStateError: They are not codes of these environments; the message begins with
                `name`.
        """
        ...

    def decode_into(self, codes: Array, obs: Array, mask: Bools | None) -> None:
        """Write the observations (B, *obs) and, unless None, masks (B, A) of codes (B, W)."""
        ...


class ChunkSource(Protocol):
    """A memory that is saved in chunks, so that a checkpoint writes only what changed.

    Two chunks with the same name and version hold the same data.
    """

    def chunk_versions(self) -> Mapping[str, int]:
        """Names of the chunks that hold data, with a version that grows on every change."""
        ...

    def read_chunk(self, name: str) -> Mapping[str, Array]:
        """The arrays of one chunk; views, valid until the next write."""
        ...

    def load_chunk(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Restore what `read_chunk` returned."""
        ...


def iter_rows(stats: EpisodeStats) -> Iterator[tuple[int, int, float, float, bool, int]]:
    """Episodes as tuples (env, steps, return, score, won, cause) of Python numbers."""
    return zip(
        stats.env.tolist(),
        stats.steps.tolist(),
        stats.returns.tolist(),
        stats.score.tolist(),
        stats.won.tolist(),
        stats.cause.tolist(),
        strict=True,
    )


ALIGNMENT = 64
"""Bytes: one cache line and one AVX-512 register."""


def aligned_zeros(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """A zeroed array whose memory begins on a cache line.

    Matrix products may use another code path, and so round differently, when the alignment of their
    inputs differs; a fixed alignment keeps runs bit-identical across processes.
    """
    item = np.dtype(dtype)
    size = prod(shape) * item.itemsize
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    begin = -raw.ctypes.data % ALIGNMENT
    return raw[begin : begin + size].view(item).reshape(shape)
