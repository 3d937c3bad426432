"""What the backends of Gymnasium environments share around their hosts: checks and records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from briskrl.core.types import Array, EpisodeStats, StepBuffers
from briskrl.envs.gym.env_group import EpisodeRows

TERMINATED, TRUNCATED = 1, 2
"""Why an episode ended: the environment's task did, or its time."""


class Ledger:
    """Episodes that ended since the last drain, in order of ending."""

    def __init__(self) -> None:
        self._parts: list[EpisodeStats] = []

    def note(self, step: StepBuffers, episode: EpisodeRows, ids: Array | None = None) -> None:
        """Keep the episodes that ended in a step.

        Args:
            step: The rows stepped.
            episode: What is told about each of them.
            ids: (M,) which envs the rows are; by default row k is env k.
        """
        ended = step.terminated | step.truncated
        if not ended.any():
            return
        rows = np.flatnonzero(ended)
        returns = episode.returns[rows].astype(np.float32)
        self._parts.append(
            EpisodeStats(
                env=(rows if ids is None else ids[rows]).astype(np.int32),
                steps=episode.steps[rows].astype(np.int32),
                returns=returns,
                score=returns.copy(),
                won=episode.won[rows],
                cause=np.where(step.terminated[rows], TERMINATED, TRUNCATED).astype(np.uint8),
            )
        )

    def clear(self) -> None:
        """Forget every record."""
        self._parts.clear()

    def drain(self) -> EpisodeStats:
        """All records, which are then forgotten."""
        parts = self._parts or [_NONE]
        self._parts = []
        if len(parts) == 1:
            return parts[0]
        return EpisodeStats(
            **{
                field.name: np.concatenate([getattr(part, field.name) for part in parts])
                for field in fields(EpisodeStats)
            }
        )


_NONE = EpisodeStats(
    env=np.zeros(0, np.int32),
    steps=np.zeros(0, np.int32),
    returns=np.zeros(0, np.float32),
    score=np.zeros(0, np.float32),
    won=np.zeros(0, np.bool_),
    cause=np.zeros(0, np.uint8),
)


def check_buffers(out: StepBuffers, like: StepBuffers) -> None:
    """Refuse buffers that are not laid out like others.

    Raises:
        ValueError: An array has another dtype or shape, or is no contiguous, writable block.
    """
    for field in fields(like):
        array, wanted = getattr(out, field.name), getattr(like, field.name)
        if array is None and (wanted is None or "mask" in field.name):
            continue
        if wanted is None:
            raise ValueError(f"This environment has no masks: {field.name} must be None.")
        fits = array.dtype == wanted.dtype and array.shape == wanted.shape
        if not fits or not array.flags.carray:
            raise ValueError(
                f"{field.name} must be a contiguous, writable {wanted.dtype} array of shape "
                f"{wanted.shape}, not {array.dtype} {array.shape}."
            )


def hand_over(own: StepBuffers, out: StepBuffers, *, ended: bool | None = None) -> None:
    """Copy a step of all envs; final observations only if an episode ended (None: look)."""
    if ended is None:
        ended = bool(own.terminated.any() or own.truncated.any())
    out.obs[...] = own.obs
    out.reward[...] = own.reward
    out.terminated[...] = own.terminated
    out.truncated[...] = own.truncated
    if out.mask is not None:
        out.mask[...] = own.mask
    if ended:
        out.final_obs[...] = own.final_obs
        if out.final_mask is not None:
            out.final_mask[...] = own.final_mask


def pack(records: Sequence[str]) -> Array:
    """The states of all envs as one array of bytes."""
    return np.frombuffer(json.dumps(list(records)).encode(), np.uint8).copy()


def unpack(packed: Array) -> list[str]:
    """What was packed."""
    records: list[str] = json.loads(packed.tobytes())
    return records
