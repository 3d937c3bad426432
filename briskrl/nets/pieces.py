"""Batches computed piece by piece, so that less memory is needed at a time."""

from __future__ import annotations

from collections.abc import Iterator


def pieces(size: int, count: int) -> Iterator[slice]:
    """Cut `size` rows into `count` slices of nearly equal length, none of them empty."""
    count = min(size, count)
    for i in range(count):
        yield slice(size * i // count, size * (i + 1) // count)
