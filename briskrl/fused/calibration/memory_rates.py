"""Memory bandwidth."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from briskrl.compiler.packed_args import PackedArgs
from briskrl.core.types import Floats, aligned_zeros
from briskrl.fused.calibration.timing import Work, best_seconds
from briskrl.fused.kernels.calibration import triad, triad_parts
from briskrl.parallel.thread_team import ThreadTeam, bounds_of

NUMBERS = 1 << 24
"""Per array: 64 MiB, more than caches hold."""


@dataclass(frozen=True, slots=True)
class MemoryRates:
    """Billions of bytes per second, read and written together."""

    copy: float
    """One array copied to another by NumPy."""
    triad: float
    """Two arrays read and one written by compiled code."""
    triad_two_threads: float | None = None


def measure_memory(*, budget_s: float, two_threads: bool, numbers: int = NUMBERS) -> MemoryRates:
    """Measure with arrays of `numbers` float32; `budget_s` is the time for each rate."""
    out, left, right = (aligned_zeros((numbers,), np.float32) for _ in range(3))
    left[:], right[:] = 1, 2

    def copy(repeats: int) -> None:
        for _ in range(repeats):
            np.copyto(out, left)

    shared = None
    if two_threads:
        seconds = best_seconds(_halves(out, left, right), budget_s=budget_s, clock=perf_counter)
        shared = 3e-9 * out.nbytes / seconds
    return MemoryRates(
        copy=2e-9 * out.nbytes / best_seconds(copy, budget_s=budget_s),
        triad=3e-9 * out.nbytes / best_seconds(_whole(out, left, right), budget_s=budget_s),
        triad_two_threads=shared,
    )


def _whole(out: Floats, left: Floats, right: Floats) -> Work:
    factor = np.float32(3)

    def work(repeats: int) -> None:
        for _ in range(repeats):
            triad(out, left, right, factor)

    return work


def _halves(out: Floats, left: Floats, right: Floats) -> Work:
    """The same in two threads."""
    factor = np.full(1, 3, np.float32)
    # Members need no arrays of their own.
    team = ThreadTeam((PackedArgs((factor,)), PackedArgs((factor,))))
    bounds = bounds_of(len(out), 2, 64, len(out) // 2)

    def work(repeats: int) -> None:
        for _ in range(repeats):
            team.run(triad_parts, (out, left, right, factor), bounds)

    return work
