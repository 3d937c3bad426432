"""Parse JSON that anybody may have written."""

from __future__ import annotations

import json
from pathlib import Path

from briskrl.core.types import JSON
from briskrl.training.storage.own_files import read_regular


def read_json(path: Path) -> JSON:
    """The content of a JSON file of at most 16 MB; see `parse_json`.

    Raises:
        OSError: It cannot be read, or is not a regular file.
        ValueError: It is too large, or not such a text.
    """
    return parse_json(read_regular(path))


def parse_json(data: bytes) -> JSON:
    """The value of a JSON text.

    Raises:
        ValueError: It is not JSON, a name occurs twice in an object, a number is not finite, or it
            is nested too deeply.
    """
    try:
        return json.loads(data, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice in an object")
    return found


def _no_constant(name: str) -> JSON:
    raise ValueError(f"{name} is not a number of JSON")
