"""What a call allocates once it has run a few times."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable


def allocated(call: Callable[[], object]) -> tuple[int, int]:
    """Bytes that twenty calls leave behind, and the most they hold at any moment."""
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
