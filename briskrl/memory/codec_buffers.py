"""Batches decoded from codes, which a replay buffer may store instead of observations."""

from __future__ import annotations

import numpy as np

from briskrl.core.types import Array, Batch, ObsCodec, StepBuffers


class CodecBuffers:
    """Buffers for gathered codes, and their decoding into the batch."""

    def __init__(self, codec: ObsCodec, code_words: int) -> None:
        self._codec = codec
        self._codes = np.zeros((2, 0, 0, code_words), np.uint64)

    def buffers(self, out: Batch) -> tuple[Array, Array]:
        """Buffers (K, B, W) for the codes of obs and next_obs, to be filled before `decode`."""
        _, _, _, words = self._codes.shape
        if self._codes.shape[1:3] != out.index.shape:
            self._codes = np.zeros((2, *out.index.shape, words), np.uint64)
        return self._codes[0], self._codes[1]

    def decode(self, updates: int, out: Batch) -> None:
        """Decode observations and masks of the first `updates` batches into `out`."""
        count = updates * out.index.shape[1]
        now, after = (codes.reshape(-1, codes.shape[2])[:count] for codes in self._codes)
        self._codec.decode_into(now, _flat(out.obs)[:count], None)
        mask = None if out.next_mask is None else _flat(out.next_mask)[:count]
        self._codec.decode_into(after, _flat(out.next_obs)[:count], mask)


def codes_of(buffers: StepBuffers) -> Array:
    """The codes (N, W) of step buffers.

    Raises:
        ValueError: The buffers have no codes.
    """
    if buffers.code is None:
        raise ValueError("This memory stores codes, but the step buffers have none.")
    return buffers.code


def _flat(array: Array) -> Array:
    """(K, B, ...) as (K * B, ...), a view."""
    if not array.flags.c_contiguous:
        raise ValueError("The arrays of a batch must be contiguous.")
    return array.reshape(-1, *array.shape[2:])
