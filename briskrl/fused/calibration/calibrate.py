"""A thorough or a quick calibration of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from briskrl.fused.calibration.call_overhead import CallOverhead, measure_call_overhead
from briskrl.fused.calibration.gemm_rates import SHAPES, GemmRate, measure_gemm
from briskrl.fused.calibration.memory_rates import MemoryRates, measure_memory

QUICK_S = 0.025
"""Time for each product of a quick calibration, a third of a second in all."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a machine can do; rates are billions of operations or bytes per second."""

    gflops: Annotated[float, Meta(gt=0)]
    """The best rate of a matrix product on one thread."""
    gflops_of: str
    """The engine and the rows x inputs x outputs of that product."""
    two_threads_gflops: float | None
    """The best rate on two threads."""
    products: dict[str, GemmRate]
    memory: MemoryRates | None
    """None after a quick calibration, as is `calls`."""
    calls: CallOverhead | None
    quick: bool


def calibrate(seconds: float, *, two_threads: bool) -> Calibration:
    """Measure everything.

    Args:
        seconds: About how long to measure, without preparations.
        two_threads: Measure with two threads as well; needs two cores.
    """
    each = seconds / ((4 if two_threads else 2) * len(SHAPES) + 7)
    return _calibration(
        measure_gemm(budget_s=each, two_threads=two_threads),
        measure_memory(budget_s=each, two_threads=two_threads),
        measure_call_overhead(budget_s=each, two_threads=two_threads),
    )


def calibrate_quickly() -> Calibration:
    """Measure products on one thread, in well under a second."""
    return _calibration(measure_gemm(budget_s=QUICK_S, two_threads=False), None, None)


def _calibration(
    products: dict[str, GemmRate], memory: MemoryRates | None, calls: CallOverhead | None
) -> Calibration:
    shape = max(products, key=lambda name: products[name].best)
    best = products[shape]
    pairs = [
        rate
        for product in products.values()
        for rate in (product.torch_two_threads, product.fused_two_threads)
        if rate is not None
    ]
    return Calibration(
        gflops=best.best,
        gflops_of=f"{'fused' if best.fused >= best.torch else 'torch'} {shape}",
        two_threads_gflops=max(pairs, default=None),
        products=products,
        memory=memory,
        calls=calls,
        quick=memory is None,
    )
