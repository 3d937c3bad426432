"""How much of the machine a run uses: its arithmetic per CPU second against the best rate."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from briskrl.algos.flops import Flops
from briskrl.training.machine_profile import load_profile, quick_profile


@dataclass(frozen=True, slots=True)
class Utilization:
    """Arithmetic of a stretch of training; None where nothing can be said.

    Rates are per CPU second, so that two threads are compared with twice what one could do.
    """

    flops_per_step: float
    """Floating-point operations of the networks' products per transition, updates included."""
    achieved_gflops: float | None
    """Billions of them per CPU second; None on an accelerator, which does them by itself."""
    machine_gflops: float | None
    """The same of the best product that one thread of this machine was seen to do."""
    machine_fraction: float | None


class UtilizationMeter:
    """Turns transitions, updates and CPU seconds into an Effort.

    Args:
        flops: What acting and learning take.
        on_cpu: Whether this machine's cores compute them.
    """

    def __init__(self, flops: Flops, *, on_cpu: bool) -> None:
        self._flops = flops
        self._on_cpu = on_cpu
        known = load_profile() if on_cpu else None
        self.machine_gflops = None if known is None else known.calibration.gflops
        """None if it was never measured."""

    def calibrate(self) -> float:
        """Measure the machine unless that was done before; returns the seconds it took."""
        begin = perf_counter()
        if self._on_cpu and self.machine_gflops is None:
            self.machine_gflops = quick_profile().calibration.gflops
        return perf_counter() - begin

    def measure(self, *, steps: int, updates: int, cpu_s: float) -> Utilization:
        """What so many transitions and updates in so many CPU seconds amount to."""
        total = self._flops.total(steps, updates)
        achieved = 1e-9 * total / max(1e-9, cpu_s) if self._on_cpu else None
        best = self.machine_gflops
        return Utilization(
            flops_per_step=total / max(1, steps),
            achieved_gflops=achieved,
            machine_gflops=best,
            machine_fraction=None if achieved is None or best is None else achieved / best,
        )
