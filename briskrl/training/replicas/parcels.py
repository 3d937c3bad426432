"""Names, numbers and arrays as bytes, for what replicas send each other.

Nothing is unpickled: a replica that is not one of ours can send wrong numbers, but no code.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

from safetensors.numpy import save

from briskrl.core.types import JSON, Array, State
from briskrl.training.storage.safetensors_io import parse_tensors

_SIZE = struct.Struct("<Q")
_BETWEEN = "/"


def pack(values: Mapping[str, JSON], arrays: Mapping[str, Array] | None = None) -> bytes:
    """The bytes of JSON values and arrays."""
    text = json.dumps(values).encode()
    # The library's writer takes contiguous arrays only.
    tensors = {name: array.copy(order="C") for name, array in (arrays or {}).items()}
    return _SIZE.pack(len(text)) + text + (save(tensors) if tensors else b"")


def unpack(data: bytes) -> tuple[dict[str, JSON], dict[str, Array]]:
    """What `pack` was given.

    Raises:
        ValueError: It is something else.
    """
    (size,) = _SIZE.unpack_from(data)
    end = _SIZE.size + size
    values: dict[str, JSON] = json.loads(data[_SIZE.size : end])
    return values, parse_tensors(data[end:]) if len(data) > end else {}


def pack_states(values: Mapping[str, JSON], states: Mapping[str, State]) -> bytes:
    """The bytes of JSON values and states."""
    scalars = {name: state.scalars for name, state in states.items()}
    content = {
        f"{name}{_BETWEEN}{key}": array
        for name, state in states.items()
        for key, array in state.arrays.items()
    }
    return pack({**values, "states": scalars}, content)


def unpack_states(data: bytes) -> tuple[dict[str, JSON], dict[str, State]]:
    """What `pack_states` was given."""
    values, arrays = unpack(data)
    states = {name: State({}, scalars) for name, scalars in values.pop("states").items()}
    for path, array in arrays.items():
        name, _, key = path.partition(_BETWEEN)
        states[name].arrays[key] = array
    return values, states
