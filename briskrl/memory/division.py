"""Saved memories of the replicas of a run, divided anew among another number of them.

Every replica has the same rows, and the columns of its environments. So nothing is lost: the
columns of all replicas side by side are those of one memory, and are cut at other places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from briskrl.core.division import divide
from briskrl.core.errors import InvalidStateError
from briskrl.core.types import Array, Ints, State
from briskrl.memory.kernels.ring import COUNT

_PLACES = ("final_slot", "ended")
"""Names of the places that final observations belong to, in a replay ring and in a rollout."""
_FINALS = ("final_obs", "final_mask")


def num_envs_of(state: State) -> int:
    """Environments of a saved memory."""
    arrays = state.arrays
    return int(arrays["cursor"].shape[1] if "cursor" in arrays else len(arrays["filled"]))


def divide_states(states: Sequence[State], number: int) -> list[State]:
    """The states of `number` memories that hold together what the saved ones do.

    Raises:
        InvalidStateError: Some environments have written more than others.
    """
    if "cursor" in states[0].arrays:
        return _divide_rings(states, number)
    filled = divide([state.arrays["filled"] for state in states], number)
    return [State({"filled": part}, dict(states[0].scalars)) for part in filled]


def _divide_rings(states: Sequence[State], number: int) -> list[State]:
    """The states of replay rings, which may have priorities."""
    cursors = divide([state.arrays["cursor"] for state in states], number, axis=1)
    if any(np.ptp(cursor[COUNT]) for cursor in cursors):
        raise InvalidStateError("some environments have written more transitions than others")
    scalars = states[0].scalars | {"num_envs": cursors[0].shape[1]}
    base = np.zeros_like(states[0].arrays["version_base"])
    divided = [
        State({"cursor": cursor, "version_base": base.copy()}, dict(scalars)) for cursor in cursors
    ]
    if "priorities" in states[0].arrays:
        _divide_priorities(states, divided)
    return divided


def _divide_priorities(states: Sequence[State], divided: Sequence[State]) -> None:
    rows = int(states[0].scalars["num_rows"])
    found = [state.arrays["priorities"].reshape(rows, -1) for state in states]
    largest = max(state.scalars["largest"] for state in states)
    written = sum(state.scalars["written"] for state in states) // len(divided)
    for state, part in zip(divided, divide(found, len(divided), axis=1), strict=True):
        state.arrays["priorities"] = part.reshape(-1)
        state.scalars |= {"largest": largest, "written": written}


def divide_chunks(
    chunks: Sequence[Mapping[str, Array]], num_envs: int, number: int
) -> list[dict[str, Array]]:
    """The chunks of `number` memories with the rows that a chunk of every saved memory has.

    Args:
        chunks: What the replicas have saved under the same name.
        num_envs: Environments of each of them.
        number: Memories.
    """
    is_ring = chunks[0]["reward"].ndim == 1
    dense = [name for name in chunks[0] if name not in (*_PLACES, *_FINALS)]
    divided: list[dict[str, Array]] = [{} for _ in range(number)]
    for name in dense:
        found = [chunk[name] for chunk in chunks]
        if is_ring:
            found = [array.reshape(-1, num_envs, *array.shape[1:]) for array in found]
        for arrays, part in zip(divided, divide(found, number, axis=1), strict=True):
            arrays[name] = part.reshape(-1, *part.shape[2:]) if is_ring else part
    for arrays, finals in zip(divided, _divide_finals(chunks, num_envs, number), strict=True):
        arrays |= finals
    return divided


def _divide_finals(
    chunks: Sequence[Mapping[str, Array]], num_envs: int, number: int
) -> list[dict[str, Array]]:
    """Final observations and masks with their places, which only ended episodes have."""
    place = next((name for name in _PLACES for chunk in chunks if name in chunk), None)
    if place is None:
        return [{} for _ in range(number)]
    having = [(rank, chunk) for rank, chunk in enumerate(chunks) if place in chunk]
    rows: Ints = np.concatenate([chunk[place] // num_envs for _, chunk in having])
    envs: Ints = np.concatenate(
        [chunk[place] % num_envs + rank * num_envs for rank, chunk in having]
    )
    names = [name for name in _FINALS if name in having[0][1]]
    values = {name: np.concatenate([chunk[name] for _, chunk in having]) for name in names}
    part_envs = num_envs * len(chunks) // number
    divided = []
    for rank in range(number):
        own = np.flatnonzero(envs // part_envs == rank)
        slots = rows[own] * part_envs + envs[own] % part_envs
        own, slots = own[np.argsort(slots)], np.sort(slots)
        # A ring leaves them out of chunks without truncated episodes.
        is_left_out = place == "final_slot" and not len(slots)
        finals = {place: slots, **{name: array[own] for name, array in values.items()}}
        divided.append({} if is_left_out else finals)
    return divided
