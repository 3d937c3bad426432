"""Clocks that tell a loop's own time from the time that other programs had its core."""

from __future__ import annotations

import os
from dataclasses import dataclass
from time import perf_counter, process_time


@dataclass(frozen=True, slots=True)
class Reading:
    """Where the clocks stand."""

    wall_s: float
    cpu_s: float
    """Of all threads of this process."""
    queued_s: float
    """How long this thread has been ready but not running; 0 where the system does not tell."""


def read_clocks() -> Reading:
    """Look at all clocks."""
    return Reading(perf_counter(), process_time(), _queued_s())


def _queued_s() -> float:
    # Linux: nanoseconds on a processor, nanoseconds waiting for one, number of turns.
    try:
        descriptor = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return 0.0
    try:
        return int(os.read(descriptor, 96).split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
    finally:
        os.close(descriptor)
