"""`brisk bench machine`: peak rates of this machine, saved as the reference of later runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from briskrl.bench.command import BenchCommand, Seconds

if TYPE_CHECKING:
    from briskrl.fused.calibration.call_overhead import CallOverhead
    from briskrl.fused.calibration.gemm_rates import GemmRate
    from briskrl.fused.calibration.memory_rates import MemoryRates

DESCRIPTION = """\
Peak rates of this machine. They are saved, and every later run reports its speed relative to them:
machine_fraction in its JSON, "x% of this machine" in its progress.

  gflops               billions of operations per second of the fastest matrix product on one thread
  gflops_of            which product that is: by torch or by the fused engine, and its shape
                       (rows x inputs x outputs)
  two_threads_gflops   the same on two threads
  products             all rates: torch.mm and the fused engine's product, on one and two threads
  memory_gb_per_s      copy by NumPy, triad (a = b + c * d) by compiled code
  calls                overhead in microseconds of an empty Python function, an empty compiled
                       function, a torch operation on one number, and a job for another thread

The fastest of many short slices counts. Rates of one thread are by CPU time, those of two threads
by wall time. Measure on an idle machine."""

EXAMPLES = """\
examples:
  brisk bench machine
  brisk bench machine --seconds 20 --json"""


@dataclass(frozen=True, slots=True)
class MachineBench:
    """Settings of `brisk bench machine`."""

    seconds: Seconds = 5.0
    """Seconds to measure."""


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """Measured rates and a description of the machine; see Calibration and MachineProfile."""

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
    """None if the cache folder is not writable."""


def measure_machine(bench: MachineBench) -> MachineFigures:
    """Measure this machine, and save the result for later runs."""
    from briskrl.training.machine_profile import measure_profile

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


COMMAND = BenchCommand(
    DESCRIPTION, EXAMPLES, MachineBench, measure_machine, lambda bench: bench.seconds + 2
)
