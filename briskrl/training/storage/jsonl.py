"""Rows of numbers as lines of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from briskrl.core.types import JSON


def plain(value: JSON) -> JSON:
    """The value with NumPy numbers made Python's and with null for NaN and infinities."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def json_line(row: Mapping[str, JSON]) -> bytes:
    """One row as one line."""
    return json.dumps(plain(row), allow_nan=False, separators=(",", ":")).encode() + b"\n"


def read_jsonl(path: Path) -> Iterator[dict[str, JSON]]:
    """The rows of a file, one at a time; a torn last line, left by a killed writer, is dropped.

    Raises:
        ValueError: A line that is not the last one is no JSON object.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {number} of {path} is not JSON: {error}") from error
            yield row
