"""All clocks of the examined process."""

from __future__ import annotations

import os
from time import perf_counter, process_time

SCHEDSTAT = "/proc/thread-self/schedstat"


def read_clocks() -> dict[str, float]:
    """Wall time, CPU time of all threads, and time this thread was ready but had no core."""
    return {"t": perf_counter(), "cpu": process_time(), "queued": _queued_s()}


def _queued_s() -> float:
    try:
        descriptor = os.open(SCHEDSTAT, os.O_RDONLY)
    except OSError:  # Only Linux reports it.
        return 0.0
    try:
        fields: list[bytes] = os.read(descriptor, 96).split()
        return int(fields[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
    finally:
        os.close(descriptor)
