"""Checks of what callers pass to a batch, before compiled code relies on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from briskrl.core.types import Array, Bools, StepBuffers


def checked_actions(actions: ArrayLike, shape: tuple[int, ...], num_actions: int) -> Array:
    """Actions of this shape, (N,) or (N, D), all of them integers in range.

    Raises:
        ValueError: The shape is wrong, or an action is out of range.
        TypeError: They are not integers.
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
    """The envs (N,) to reset: options["reset_mask"], or all of them.

    Raises:
        TypeError: options["reset_mask"] is not an array of bools.
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
        raise gymnasium.error.ResetNeeded("The first reset must include all envs.")
    return cast(Bools, mask)


def check_buffers(out: StepBuffers, like: StepBuffers) -> None:
    """Check dtypes and shapes of buffers: kernels would corrupt memory with wrong ones.

    Masks and codes may be left out.

    Raises:
        ValueError: One of them does not fit.
    """
    # Called in every step of a rollout, because each step has its own buffers.
    if not (
        _fits(out.obs, like.obs)
        and _fits(out.reward, like.reward)
        and _fits(out.terminated, like.terminated)
        and _fits(out.truncated, like.truncated)
        and _fits(out.final_obs, like.final_obs)
        and (out.mask is None or _fits(out.mask, like.mask))
        and (out.final_mask is None or _fits(out.final_mask, like.final_mask))
        and (out.code is None or _fits(out.code, like.code))
    ):
        _raise_mismatch(out, like)


def _fits(array: Array, like: Array | None) -> bool:
    return (
        like is not None
        and array.dtype is like.dtype
        and array.shape == like.shape
        and array.flags.carray
    )


def _raise_mismatch(out: StepBuffers, like: StepBuffers) -> None:
    for field in fields(out):
        name = field.name
        array, wanted = getattr(out, name), getattr(like, name)
        if array is None and ("mask" in name or name == "code"):
            continue
        if wanted is None:
            what = "codes" if name == "code" else "masks"
            raise ValueError(f"This environment was built without {what}: {name} must be None.")
        # Equal dtypes may be different objects.
        if array.dtype != wanted.dtype or array.shape != wanted.shape or not array.flags.carray:
            raise ValueError(
                f"{name} must be a contiguous, writable {wanted.dtype} array of shape "
                f"{wanted.shape}, not {array.dtype} {array.shape}."
            )
