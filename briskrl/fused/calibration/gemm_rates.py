"""The rate of matrix products in single precision, at the shapes of training."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch

from briskrl.compiler.packed_args import PackedArgs
from briskrl.core.types import Floats, aligned_zeros
from briskrl.fused.calibration.timing import Work, best_seconds, torch_threads
from briskrl.fused.kernels.calibration import multiply, multiply_parts
from briskrl.parallel.thread_team import ThreadTeam

Shape = tuple[int, int, int]

SHAPES: tuple[Shape, ...] = (
    (64, 128, 128),
    (512, 128, 128),
    (256, 64, 64),
    (4096, 64, 64),
    (64, 16, 128),
    (512, 512, 512),
)
"""Rows, inputs and outputs: default layers of DQN and PPO, a first layer, and a product that is
large enough for any library to reach its peak."""


@dataclass(frozen=True, slots=True)
class GemmRate:
    """Billions of operations per second of one product, by engine."""

    torch: float
    """torch.mm, with the overhead of its call."""
    fused: float
    """The fused engine's product."""
    torch_two_threads: float | None = None
    """torch.mm on torch's own two threads."""
    fused_two_threads: float | None = None
    """The fused engine's product, one on each of two threads."""

    @property
    def best(self) -> float:
        """The faster engine on one thread."""
        return max(self.torch, self.fused)


def name_of(shape: Shape) -> str:
    """For example 64x128x128."""
    return "x".join(map(str, shape))


def measure_gemm(*, budget_s: float, two_threads: bool) -> dict[str, GemmRate]:
    """The rates at all SHAPES, by name; `budget_s` is the time for each rate."""
    rates = {}
    # Torch's second thread may keep spinning for a while, so it is measured last.
    with torch_threads(1):
        for shape in SHAPES:
            rates[name_of(shape)] = [
                _rate(shape, best_seconds(work(shape), budget_s=budget_s))
                for work in (torch_gemm, fused_gemm)
            ]
    if two_threads:
        pairs = {}
        for shape in SHAPES:
            each = best_seconds(two_thread_gemm(shape), budget_s=budget_s, clock=perf_counter)
            pairs[name_of(shape)] = 2 * _rate(shape, each)
        with torch_threads(2):
            for shape in SHAPES:
                work = torch_gemm(shape)
                each = best_seconds(work, budget_s=budget_s, clock=perf_counter)
                rates[name_of(shape)] += [_rate(shape, each), pairs[name_of(shape)]]
    return {name: GemmRate(*found) for name, found in rates.items()}


def fused_gemm(shape: Shape) -> Work:
    """The fused engine's product of that shape, as a function of the repetitions."""
    matrices = _matrices(shape)
    return lambda repeats: multiply(*matrices, *shape, repeats)


def two_thread_gemm(shape: Shape) -> Work:
    """The same in two threads, each with all repetitions."""
    team = ThreadTeam(tuple(PackedArgs(_matrices(shape)) for _ in range(2)))

    def work(repeats: int) -> None:
        team.run(multiply_parts, (np.array([*shape, repeats]),), (0, 1, 2))

    return work


def torch_gemm(shape: Shape) -> Work:
    """Torch's product of that shape, as a function of the repetitions."""
    rows, depth, columns = shape
    sides = ((rows, depth), (depth, columns), (rows, columns))
    a, b, c = (
        torch.from_numpy(flat).view(side)
        for flat, side in zip(_matrices(shape)[:3], sides, strict=True)
    )

    def work(repeats: int) -> None:
        for _ in range(repeats):
            torch.mm(a, b, out=c)

    return work


def _matrices(shape: Shape) -> tuple[Floats, ...]:
    """A, B, C and a bias of 0, flat."""
    rows, depth, columns = shape
    rng = np.random.default_rng(0)
    flats = [aligned_zeros((size,), np.float32) for size in (rows * depth, depth * columns)]
    for flat in flats:
        rng.random(out=flat, dtype=np.float32)
    return *flats, *(aligned_zeros((size,), np.float32) for size in (rows * columns, columns))


def _rate(shape: Shape, seconds: float) -> float:
    rows, depth, columns = shape
    return 2e-9 * rows * depth * columns / seconds
