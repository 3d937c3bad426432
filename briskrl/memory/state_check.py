"""Checks loaded states and chunks of replay buffers, whose numbers kernels use as indices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from briskrl.core.spec import EnvSpec
from briskrl.core.state_checks import (
    LARGEST_COUNT,
    check_actions,
    check_finite,
    check_range,
    loaded,
)
from briskrl.core.types import Array, Bools, Ints, ObsCodec
from briskrl.memory.kernels.ring import COUNT, HEAD, TERMINATED, TRUNCATED
from briskrl.memory.ring import Ring


def loaded_cursor(arrays: Mapping[str, Array], like: Ints, num_rows: int) -> Ints:
    """The saved cursor (2, N) of a ring of `num_rows` rows.

    Raises:
        InvalidStateError: It points outside the ring.
    """
    cursor: Ints = loaded(arrays, "cursor", like)
    check_range("cursor", cursor[COUNT], 0, LARGEST_COUNT)
    distance = cursor[HEAD] - cursor[COUNT] % num_rows
    check_range("cursor: distance from the row that its count gives", distance, 0, 0)
    return cursor


def check_slots(
    arrays: Mapping[str, Array], ring: Ring, start: int, spec: EnvSpec, codec: ObsCodec | None
) -> None:
    """Check the arrays of a chunk whose first slot is `start`.

    Raises:
        InvalidStateError: They do not fit the ring, or hold impossible numbers.
    """
    stop = start + len(arrays["reward"])
    for name, array in ring.dense.items():
        check_finite(name, loaded(arrays, name, array[start:stop]))
    check_actions("action", arrays["action"], spec.action)
    check_range("flags", arrays["flags"], 0, TERMINATED | TRUNCATED)
    slots = start + np.flatnonzero(arrays["flags"] == TRUNCATED)
    if slots.size or "final_slot" in arrays:
        found = loaded(arrays, "final_slot", slots)
        check_range("final_slot: distance from the truncated slots", found - slots, 0, 0)
        for name, array in ring.sparse.items():
            check_finite(name, loaded(arrays, name, array[: len(slots)]))
    if codec is not None:
        for name in ("obs", "final_obs"):
            if name in arrays:
                codec.check_codes(name, arrays[name])


def sampleable_slots(counts: Ints, num_rows: int, n_step: int) -> Bools:
    """Slots (S,) whose n-step window is complete, after this number of writes of each env (N,)."""
    age = (counts - 1 - np.arange(num_rows)[:, None]) % num_rows
    complete: Bools = (age >= n_step) & (counts > age)
    return complete.reshape(-1)
