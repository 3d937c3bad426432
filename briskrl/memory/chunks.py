"""Saving a ring as chunks of rows, so that a checkpoint costs what changed since the last one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from briskrl.core.types import Array, Ints
from briskrl.memory.kernels import TRUNCATED
from briskrl.memory.ring import Ring

TARGET_BYTES = 8 << 20
"""Size that a chunk stays under unless one row is larger: small enough to rewrite, large enough to
keep the number of files low."""


class RingChunks:
    """The chunks of a ring of `num_rows` rows by `num_envs` envs, and their versions.

    A chunk is a power of two of neighbouring rows. `versions` (C,) counts the transitions written
    into each one; whoever writes rows adds to it, at index `row >> shift`.
    """

    def __init__(self, ring: Ring, *, num_rows: int, num_envs: int) -> None:
        self._ring = ring
        self._num_rows = num_rows
        self._num_envs = num_envs
        row_bytes = sum(array.nbytes for array in ring.dense.values()) // num_rows
        self.shift = max(1, TARGET_BYTES // row_bytes).bit_length() - 1
        self.versions: Ints = np.zeros(-(-num_rows // self.rows), np.int64)

    @property
    def rows(self) -> int:
        """Rows per chunk; the last one may have fewer."""
        return 1 << self.shift

    def names(self, filled: int) -> dict[str, int]:
        """Versions by name of the chunks that hold any of the first `filled` rows."""
        number = -(-filled // self.rows)
        return {f"chunk_{i:05d}": int(self.versions[i]) for i in range(number)}

    def read(self, name: str, filled: int) -> dict[str, Array]:
        """Views of a chunk's slots within the first `filled` rows.

        Final observations come as copies with the slots they belong to (`final_slot`), because only
        truncated transitions have one.
        """
        start, stop = self._slots(name)
        stop = min(stop, filled * self._num_envs)
        arrays: dict[str, Array] = {k: v[start:stop] for k, v in self._ring.dense.items()}
        slots = start + np.flatnonzero(self._ring.flags[start:stop] == TRUNCATED)
        if slots.size:
            arrays["final_slot"] = slots
            arrays.update({k: v[slots] for k, v in self._ring.sparse.items()})
        return arrays

    def load(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Put back what `read` gave.

        Raises:
            ValueError: The arrays do not belong to this chunk of a ring of this shape.
        """
        start, stop = self._slots(name)
        dense = self._ring.dense
        number = len(arrays["reward"]) if "reward" in arrays else 0
        slots = arrays.get("final_slot", np.zeros(0, np.int64))
        wanted = {k: (number, *v.shape[1:]) for k, v in dense.items()}
        if slots.size:
            wanted["final_slot"] = (len(slots),)
            wanted.update({k: (len(slots), *v.shape[1:]) for k, v in self._ring.sparse.items()})
        found = {k: v.shape for k, v in arrays.items()}
        outside = slots.size and (slots.min() < start or slots.max() >= start + number)
        if found != wanted or number > stop - start or outside:
            raise ValueError(f"{name} holds {found}, which does not fit this memory's {wanted}.")
        for key, array in dense.items():
            array[start : start + number] = arrays[key]
        if slots.size:
            for key, array in self._ring.sparse.items():
                array[slots] = arrays[key]

    def _slots(self, name: str) -> tuple[int, int]:
        """First slot of a chunk and the one past its last."""
        prefix, _, digits = name.partition("_")
        if prefix != "chunk" or not digits.isdecimal() or int(digits) >= len(self.versions):
            raise ValueError(f"This memory has no chunk {name!r}.")
        first = int(digits) * self.rows
        last = min(first + self.rows, self._num_rows)
        return first * self._num_envs, last * self._num_envs
