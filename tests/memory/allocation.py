"""Memory that a call allocates after a few warm-up calls."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable


def allocated(call: Callable[[], object]) -> tuple[int, int]:
    """Bytes that twenty calls keep, and their peak."""
    tracemalloc.start()
    try:
        for _ in range(3):
            call()
        begin = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for _ in range(20):
            call()
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return now - begin, peak - begin
