"""Records of finished episodes, and the copy of one step, for all Gymnasium backends."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import Array, Bools, EpisodeStats, StepBuffers

TERMINATED, TRUNCATED = 1, 2
"""Why an episode ended: in a terminal state, or by truncation."""


@dataclass(slots=True)
class EpisodeRows:
    """Statistics of the episodes that ended in the last step; other rows are undefined."""

    returns: NDArray[np.float64]
    """(count,): sum of rewards."""
    steps: NDArray[np.int64]
    """(count,): length."""
    won: Bools
    """(count,): whether the last info had `is_success`."""

    @classmethod
    def allocate(cls, count: int) -> EpisodeRows:
        """Zeroed rows."""
        return cls(
            np.zeros(count, np.float64), np.zeros(count, np.int64), np.zeros(count, np.bool_)
        )


class EpisodeRecords:
    """Episodes that ended since the last `drain`, in order."""

    def __init__(self) -> None:
        self._parts: list[EpisodeStats] = []

    def add(self, step: StepBuffers, episode: EpisodeRows, ids: Array | None = None) -> None:
        """Record the episodes that ended in a step.

        Args:
            step: The rows that were stepped.
            episode: Episode statistics of the same rows.
            ids: (M,) env indices of the rows; by default row k is env k.
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
        """Delete all records."""
        self._parts.clear()

    def drain(self) -> EpisodeStats:
        """Return and delete all records."""
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


def copy_step(own: StepBuffers, out: StepBuffers, *, ended: bool | None = None) -> None:
    """Copy a step of all envs; final observations only if an episode ended (None: check)."""
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
