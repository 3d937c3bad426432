"""How much of the machine a run uses: its FLOP per CPU second against the machine's best rate."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from briskrl.algos.flops import Flops
from briskrl.training.machine_profile import load_profile, quick_profile


@dataclass(frozen=True, slots=True)
class Utilization:
    """Arithmetic of some training time; None where it is unknown.

    Rates are per CPU second, so that two threads are compared with twice the rate of one.
    """

    flops_per_step: float
    """Floating-point operations of the networks per transition, including updates."""
    achieved_gflops: float | None
    """Achieved GFLOP per CPU second; None on an accelerator."""
    machine_gflops: float | None
    """The best GFLOP per second measured for a matrix product in one thread."""
    machine_fraction: float | None


class UtilizationMeter:
    """Turns transitions, updates and CPU seconds into a Utilization.

    Args:
        flops: Operations of acting and learning.
        on_cpu: Whether the CPU computes them.
    """

    def __init__(self, flops: Flops, *, on_cpu: bool) -> None:
        self._flops = flops
        self._on_cpu = on_cpu
        known = load_profile() if on_cpu else None
        self.machine_gflops = None if known is None else known.calibration.gflops
        """None if it is not measured yet."""

    def calibrate(self) -> float:
        """Measure the machine unless that is done already; returns the seconds it took."""
        begin = perf_counter()
        if self._on_cpu and self.machine_gflops is None:
            self.machine_gflops = quick_profile().calibration.gflops
        return perf_counter() - begin

    def measure(self, *, steps: int, updates: int, cpu_s: float) -> Utilization:
        """The utilization of these transitions and updates in `cpu_s` CPU seconds."""
        total = self._flops.total(steps, updates)
        achieved = 1e-9 * total / max(1e-9, cpu_s) if self._on_cpu else None
        best = self.machine_gflops
        return Utilization(
            flops_per_step=total / max(1, steps),
            achieved_gflops=achieved,
            machine_gflops=best,
            machine_fraction=None if achieved is None or best is None else achieved / best,
        )
