"""`brisk bench machine`: what this machine can do, kept for the runs that are compared with it."""

from __future__ import annotations

from dataclasses import dataclass

from briskrl.bench.config import MachineBench
from briskrl.fused.calibration.call_overhead import CallOverhead
from briskrl.fused.calibration.gemm_rates import GemmRate
from briskrl.fused.calibration.memory_rates import MemoryRates
from briskrl.training.machine_profile import measure_profile


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """What was measured, and of what; see Calibration and Machine."""

    gflops: float
    gflops_of: str
    two_threads_gflops: float | None
    products: dict[str, GemmRate]
    memory_gb_per_s: MemoryRates | None
    calls: CallOverhead | None
    cpu: str
    architecture: str
    cores: int
    features: tuple[str, ...]
    versions: dict[str, str]
    fingerprint: str
    measured_at: str
    saved_as: str | None
    """None if the cache folder cannot be written to."""


def measure(bench: MachineBench) -> MachineFigures:
    """Measure this machine, and save the figures for later runs."""
    machine, path = measure_profile(bench.seconds)
    found = machine.calibration
    return MachineFigures(
        gflops=found.gflops,
        gflops_of=found.gflops_of,
        two_threads_gflops=found.two_threads_gflops,
        products=found.products,
        memory_gb_per_s=found.memory,
        calls=found.calls,
        cpu=machine.cpu,
        architecture=machine.architecture,
        cores=machine.cores,
        features=machine.features,
        versions=machine.versions,
        fingerprint=machine.fingerprint,
        measured_at=machine.measured_at,
        saved_as=None if path is None else str(path),
    )
