"""A replay ring as chunks of rows, so that a checkpoint writes only what has changed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from briskrl.core.errors import InvalidStateError
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, Ints, ObsCodec
from briskrl.memory.kernels.ring import TRUNCATED
from briskrl.memory.ring import Ring
from briskrl.memory.state_check import check_slots

MAX_BYTES = 8 << 20
"""Upper limit of a chunk's size, unless one row is larger."""
MIN_BYTES = 1 << 18
"""Size up to which a memory is not divided further, because tiny files gain nothing."""
MIN_CHUNKS = 256
"""Number of chunks of a larger memory. A checkpoint rewrites the chunks that have changed since the
last but one; with so many, that is little more than what has changed."""


class RingChunks:
    """Chunks of consecutive rows of a ring of `num_rows` rows by `num_envs` envs."""

    def __init__(
        self,
        ring: Ring,
        *,
        num_rows: int,
        num_envs: int,
        spec: EnvSpec,
        codec: ObsCodec | None = None,
    ) -> None:
        self._ring = ring
        self._spec, self._codec = spec, codec
        self._num_rows = num_rows
        self._num_envs = num_envs
        whole = sum(array.nbytes for array in ring.dense.values())
        size = min(MAX_BYTES, max(MIN_BYTES, whole // MIN_CHUNKS))
        self.rows = 1 << max(1, size * num_rows // whole).bit_length() - 1
        """Rows per chunk, a power of two; the last chunk may have fewer."""
        self.base: Ints = self.zero_base(self.rows)
        """(C,): offset of the versions."""

    def zero_base(self, rows: int) -> Ints:
        """A base (C,) for chunks of this number of rows."""
        return np.zeros(-(-self._num_rows // rows), np.int64)

    def load_base(self, rows: int, base: Ints) -> None:
        """Divide into chunks of `rows` rows, as a saved memory is; `base` is its base."""
        self.rows = rows
        self.base = base.copy()

    def versions(self, counts: Ints) -> Ints:
        """Versions (C,): base plus the number of transitions ever written to each chunk.

        Rows are written in order, so the number follows from the writes of each env (N,), and the
        hot path does not have to count per chunk.
        """
        first_row = np.arange(0, self._num_rows, self.rows)
        laps, rest = np.divmod(counts, self._num_rows)
        rows = np.minimum(self.rows, self._num_rows - first_row)
        begun = np.clip(rest - first_row[:, None], 0, rows[:, None]).sum(axis=1)
        total: Ints = self.base + laps.sum() * rows + begun
        return total

    def names(self, counts: Ints) -> dict[str, int]:
        """Names and versions of the chunks that hold data."""
        number = -(-self.filled(counts) // self.rows)
        return {f"chunk_{i:05d}": int(v) for i, v in enumerate(self.versions(counts)[:number])}

    def filled(self, counts: Ints) -> int:
        """Number of rows that hold a transition of any env."""
        return min(int(counts.max()), self._num_rows)

    def read(self, name: str, counts: Ints) -> dict[str, Array]:
        """Views of a chunk's slots in rows that hold data.

        Final observations are copies, with the slots they belong to (`final_slot`), because only
        truncated transitions have them.
        """
        start, stop = self._slots(name)
        stop = min(stop, self.filled(counts) * self._num_envs)
        arrays: dict[str, Array] = {k: v[start:stop] for k, v in self._ring.dense.items()}
        slots = start + np.flatnonzero(self._ring.flags[start:stop] == TRUNCATED)
        if slots.size:
            arrays["final_slot"] = slots
            arrays.update({k: v[slots] for k, v in self._ring.sparse.items()})
        return arrays

    def load(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Restore what `read` returned.

        Raises:
            InvalidStateError: The arrays do not belong to this chunk of a ring of this shape, or
                hold impossible numbers; the ring is as it was.
        """
        start, stop = self._slots(name)
        reward = arrays.get("reward")
        if reward is None or reward.ndim != 1 or len(reward) > stop - start:
            raise InvalidStateError(f"{name} does not hold up to {stop - start} rewards")
        check_slots(arrays, self._ring, start, self._spec, self._codec)
        for key, array in self._ring.dense.items():
            array[start : start + len(reward)] = arrays[key]
        slots = start + np.flatnonzero(arrays["flags"] == TRUNCATED)
        if slots.size:
            for key, array in self._ring.sparse.items():
                array[slots] = arrays[key]

    def _slots(self, name: str) -> tuple[int, int]:
        """First slot of a chunk, and the slot after its last."""
        prefix, _, digits = name.partition("_")
        if prefix != "chunk" or not digits.isdecimal() or int(digits) >= len(self.base):
            raise InvalidStateError(f"This memory has no chunk {name!r}.")
        first = int(digits) * self.rows
        last = min(first + self.rows, self._num_rows)
        return first * self._num_envs, last * self._num_envs
