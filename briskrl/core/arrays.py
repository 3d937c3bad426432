"""Allocation of the arrays that arithmetic libraries read."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

ALIGNMENT = 64
"""Bytes: one cache line and one AVX-512 register."""


def aligned_zeros(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """A zeroed array whose memory begins on a cache line.

    Matrix products may take another code path, and so round differently, when the alignment of
    their inputs differs; a fixed alignment keeps runs equal to the bit across processes.
    """
    item = np.dtype(dtype)
    size = prod(shape) * item.itemsize
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    begin = -raw.ctypes.data % ALIGNMENT
    return raw[begin : begin + size].view(item).reshape(shape)
