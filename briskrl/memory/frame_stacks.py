"""Observations that are stacks of frames, of which a replay buffer stores every frame once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from briskrl.core.spec import ArraySpec, EnvSpec
from briskrl.core.types import Array, Batch
from briskrl.memory.kernels.frames import fill_stacks
from briskrl.memory.ring import batches_of


class FrameStacks:
    """Newest frames of step buffers, and whole observations of sampled transitions.

    Frames that the ring has overwritten are replaced by the oldest one left: that concerns the
    oldest `frame_stack` - 1 transitions of every environment only.

    Args:
        spec: Its observations are planes with the newest frame last, and the first frame of an
            episode fills the stack.
        num_envs: N.
    """

    def __init__(self, spec: EnvSpec, num_envs: int) -> None:
        self.stack = spec.frame_stack
        planes, height, width = spec.obs.shape
        shape = (planes // self.stack, height, width)
        frame = ArraySpec.of(shape, spec.obs.dtype, spec.obs.low, spec.obs.high)
        self.spec = replace(spec, obs=frame, frame_stack=1)
        """What the ring stores."""
        self._size = frame.size
        self._newest: dict[str, Array] = {
            role: np.zeros((num_envs, frame.size), frame.dtype) for role in ("obs", "final_obs")
        }
        self._batches: dict[str, Array] = {}

    def newest(self, obs: Array, role: str) -> Array:
        """The newest frames (N, F) of observations (N, *obs); the same array in every call."""
        out = self._newest[role]
        np.copyto(out[: len(obs)], obs.reshape(len(obs), -1)[:, -self._size :])
        return out

    def buffers(self, out: Batch) -> tuple[Array, Array]:
        """Where single frames of a batch go, which `fill` overwrites."""
        shape = (*out.index.shape, self._size)
        if "obs" not in self._batches or self._batches["obs"].shape != shape:
            self._batches = {
                name: np.zeros(shape, self.spec.obs.dtype) for name in ("obs", "next_obs")
            }
        return self._batches["obs"], self._batches["next_obs"]

    def fill(self, packed_ring: Any, updates: int, out: Batch) -> None:
        """Write the whole observations of the first `updates` batches."""
        whole = np.zeros((0, self.stack * self._size), self.spec.obs.dtype)
        obs, next_obs = batches_of(out.obs, whole), batches_of(out.next_obs, whole)
        fill_stacks(packed_ring, updates, out.index, self.stack, obs, next_obs)
