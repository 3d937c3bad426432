"""Per-call overhead."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch

from briskrl.compiler.packed_args import PackedArgs
from briskrl.fused.calibration.timing import best_seconds
from briskrl.fused.kernels.calibration import do_nothing, nothing
from briskrl.parallel.native_worker import NativeWorker
from briskrl.parallel.thread_pool import Worker


@dataclass(frozen=True, slots=True)
class CallOverhead:
    """Microseconds per call."""

    python_us: float
    """A Python function that does nothing."""
    kernel_us: float
    """A compiled function that takes an array and does nothing."""
    torch_us: float
    """A torch operation on a tensor of one number."""
    hand_over_us: float | None = None
    """A request to another thread that does nothing, and waiting for it."""


def measure_call_overhead(*, budget_s: float, two_threads: bool) -> CallOverhead:
    """Measure the overhead of all kinds of calls; `budget_s` is the time for each."""
    numbers, tensor = np.zeros(8, np.float32), torch.zeros(1)

    def python(repeats: int) -> None:
        for _ in range(repeats):
            _idle(0)

    def kernel(repeats: int) -> None:
        for _ in range(repeats):
            nothing(numbers)

    def torch_op(repeats: int) -> None:
        for _ in range(repeats):
            tensor.add_(1)

    return CallOverhead(
        python_us=1e6 * best_seconds(python, budget_s=budget_s),
        kernel_us=1e6 * best_seconds(kernel, budget_s=budget_s),
        torch_us=1e6 * best_seconds(torch_op, budget_s=budget_s),
        hand_over_us=_handoff_us(budget_s) if two_threads else None,
    )


def _handoff_us(budget_s: float) -> float:
    worker = Worker(1)
    native, args = NativeWorker(worker), PackedArgs((np.zeros(1),))

    def work(repeats: int) -> None:
        for _ in range(repeats):
            native.begin(do_nothing, args)
            native.finish()

    seconds = best_seconds(work, budget_s=budget_s, clock=perf_counter)
    native.close()
    worker.stop()
    return 1e6 * seconds


def _idle(number: int) -> None:
    pass
