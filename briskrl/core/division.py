"""Arrays of several processes, divided anew among another number of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from briskrl.core.types import Array


def divide(parts: Sequence[Array], number: int, *, axis: int = 0) -> list[Array]:
    """`number` equal parts of what `parts` hold together, in the same order along the axis."""
    return np.split(np.concatenate(parts, axis=axis), number, axis=axis)


def are_equal(arrays: Sequence[Array]) -> bool:
    """Whether all arrays hold the same bits."""
    return all(array.tobytes() == arrays[0].tobytes() for array in arrays[1:])
