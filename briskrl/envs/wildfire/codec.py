"""Observations in a few bytes: what changes is kept, what a landscape always shows is not.

A row holds the landscape's number, what is left of the budget, and one bit per treated cell; with
the pool that is all the planes there are. 40x40 cells take 208 bytes instead of 96,000.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import Array, Floats
from briskrl.envs.wildfire.env import WildfireVecEnv
from briskrl.envs.wildfire.views.kernels import read_rows, write_rows

Rows = NDArray[np.uint8]


class PlaneCodec:
    """Writes the episodes of a batch as rows of bytes, and planes from rows of its own pool."""

    def __init__(self, env: WildfireVecEnv) -> None:
        self._env = env
        cells = env.pool.shape[0] * env.pool.shape[1]
        self._words = 1 + -(-cells // 64)

    @property
    def row_bytes(self) -> int:
        """Bytes of one observation."""
        return 8 * self._words

    def new_rows(self, count: int) -> Rows:
        """Room for observations, (count, row_bytes)."""
        return np.zeros((count, self.row_bytes), np.uint8)

    def encode_into(self, rows: Rows) -> None:
        """Write the episodes as they stand, (N, row_bytes)."""
        env = self._env
        write_rows(env._rules, env._words, self._as_words(rows, env.num_envs))

    def decode_into(self, rows: Rows, obs: Floats) -> None:
        """Write the planes (B, C, H, W) that rows (B, row_bytes) stand for."""
        expected = (len(rows), *self._env.env_spec.obs.shape)
        if obs.shape != expected or obs.dtype != np.float32 or not obs.flags.carray:
            raise ValueError(f"obs must be a contiguous float32 array of shape {expected}.")
        read_rows(self._env._rules, self._as_words(rows, len(rows)), obs)

    def _as_words(self, rows: Rows, count: int) -> Array:
        if rows.shape != (count, self.row_bytes) or not rows.flags.carray:
            raise ValueError(f"rows must be contiguous bytes of shape {(count, self.row_bytes)}.")
        return rows.view(np.uint64)
