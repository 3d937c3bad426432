"""Observations in a few bytes: only what changes during an episode is stored.

A code holds the landscape's index, the remaining budget, and one bit per treated cell; planes and
mask follow from it and the pool. 40x40 cells take 208 bytes instead of 97,600.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike, NDArray

from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, Bools
from briskrl.envs.wildfire.kernels.observation import read_masks, read_planes
from briskrl.envs.wildfire.landscape_pool import Pool
from briskrl.envs.wildfire.state_check import check_codes


class PlaneCodec:
    """Rebuilds planes and masks from codes; see ObsCodec."""

    def __init__(self, params: NDArray[np.int64], pool: Pool, spec: EnvSpec) -> None:
        """Set up the codec.

        Args:
            params: Settings, as the kernels read them.
            pool: The landscapes that they point to.
            spec: The spec of the environments.
        """
        self._params = params
        self._pool = pool
        self._spec = spec

    @property
    def code_bytes(self) -> int:
        """Bytes of one code."""
        return 8 * self._spec.code_words

    def check_codes(self, name: str, codes: Array) -> None:
        """Check loaded codes (B, W); see ObsCodec."""
        check_codes(name, codes, self._pool)

    def decode_into(self, codes: Array, obs: Array, mask: Bools | None) -> None:
        """Write the planes (B, C, H, W) and, if given, the mask (B, H * W) of codes (B, W).

        Raises:
            ValueError: An array has another shape or dtype.
        """
        count, (_, height, width) = len(codes), self._spec.obs.shape
        _check("codes", codes, (count, self._spec.code_words), np.uint64)
        _check("obs", obs, (count, *self._spec.obs.shape), np.float32)
        read_planes(self._params, codes, obs)
        if mask is not None:
            _check("mask", mask, (count, height * width), np.bool_)
            read_masks(self._params, codes, mask)


def _check(name: str, array: Array, shape: tuple[int, ...], dtype: DTypeLike) -> None:
    if array.shape != shape or array.dtype != dtype or not array.flags.carray:
        kind = np.dtype(dtype).name
        raise ValueError(f"{name} must be a contiguous {kind} array of shape {shape}.")
