"""Read and write arrays as safetensors files, without copying contiguous arrays.

The library's own writer assumes contiguous arrays, and older versions of it copy everything twice.
This writer copies only arrays that are not contiguous. Files are read by the library.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from briskrl.core.state_checks import MALFORMED, short
from briskrl.core.types import Array
from briskrl.training.storage.atomic_files import FileRecord, write_new
from briskrl.training.storage.own_files import read_regular

MAX_BYTES = 1 << 40
"""Largest file of arrays that is read."""
_CODES = {
    "bool": "BOOL",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
}


def write_tensors(path: Path, arrays: Mapping[str, Array], *, durable: bool = True) -> FileRecord:
    """Create a safetensors file of these arrays; if durable, it is on disk when this returns.

    Raises:
        TypeError: An array's dtype has no exact counterpart in the format.
    """
    return write_new(path, _blocks(arrays), durable=durable)


def read_tensors(path: Path) -> dict[str, Array]:
    """The arrays of a safetensors file, writable copies.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not in the format.
    """
    return parse_tensors(read_regular(path, MAX_BYTES))


def parse_tensors(data: bytes) -> dict[str, Array]:
    """The arrays of a safetensors file's content, writable copies.

    Raises:
        ValueError: The content is not in the format.
    """
    try:
        return {name: np.require(array, requirements="W") for name, array in load(data).items()}
    except (SafetensorError, *MALFORMED) as error:
        # The library raises other errors for dtypes and shapes that NumPy does not have.
        raise ValueError(f"not a safetensors file ({short(str(error))})") from error


def _blocks(arrays: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
    # Widest first, so that every array starts at a multiple of its item size.
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header = {}
    end = 0
    for name in names:
        array = arrays[name]
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": _code(name, array),
            "shape": array.shape,
            "data_offsets": (begin, end),
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for name in names:
        yield _raw(arrays[name])


def _code(name: str, array: Array) -> str:
    if array.dtype.name not in _CODES:
        raise TypeError(f"Array {name!r} of dtype {array.dtype} cannot be saved exactly.")
    return _CODES[array.dtype.name]


def _raw(array: Array) -> memoryview:
    little = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    return little.reshape(-1).view(np.uint8).data
