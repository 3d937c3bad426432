"""What Gymnasium's callers ask of a batch, checked before compiled code trusts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from briskrl.core.types import Array, Bools


def checked_actions(actions: ArrayLike, shape: tuple[int, ...], num_actions: int) -> Array:
    """Actions of this shape, (N,) or (N, D), all of them integers in range.

    Raises:
        ValueError: There are too many or too few, or one is out of range.
        TypeError: They are no integers.
    """
    chosen = np.asarray(actions)
    if chosen.shape != shape:
        raise ValueError(f"actions must have shape {shape}, not {chosen.shape}.")
    if not np.issubdtype(chosen.dtype, np.integer):
        raise TypeError(f"actions must be integers, not {chosen.dtype}.")
    top = num_actions - 1
    if chosen.min() < 0 or chosen.max() > top:
        raise ValueError(f"actions must be 0 to {top}: {chosen[(chosen < 0) | (chosen > top)]}")
    return chosen


def reset_mask(options: Mapping[str, Any] | None, num_envs: int, *, started: bool) -> Bools:
    """The envs (N,) that a reset with these options is about: all of them unless it says so.

    Raises:
        TypeError: options["reset_mask"] is no array of bools.
        ValueError: It has another shape, or no True.
        ResetNeeded: It leaves out envs that have never been reset.
    """
    mask = (options or {}).get("reset_mask")
    if mask is None:
        return np.ones(num_envs, np.bool_)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError('options["reset_mask"] must be a NumPy array of bools.')
    if mask.shape != (num_envs,):
        raise ValueError(f'options["reset_mask"] must have shape ({num_envs},), not {mask.shape}.')
    if not mask.any():
        raise ValueError('options["reset_mask"] must hold at least one True.')
    if not started and not mask.all():
        raise gymnasium.error.ResetNeeded("The first reset must be one of all games.")
    return cast(Bools, mask)
