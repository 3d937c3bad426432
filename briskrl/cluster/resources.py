"""Cores and GPUs of this machine, and which jobs have them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from briskrl.core.errors import BriskError

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
_ROUNDING = 1e-9
"""Shares such as three times 1/3 may add up to a little more than one GPU."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one job has."""

    cores: int
    share: float
    """Share of each of the GPUs."""
    gpus: tuple[str, ...]

    def environment(self) -> dict[str, str]:
        """Environment variables that restrict a process to the GPUs; it sees no others."""
        return {VISIBLE_GPUS: ",".join(self.gpus)}


class Resources:
    """Cores and GPUs that can be taken and given back.

    Args:
        cores: Cores for jobs; may be more than the machine has.
        gpus: Names of the GPUs; those that this process sees if absent.
    """

    def __init__(self, cores: int, gpus: Sequence[str] | None = None) -> None:
        self.cores = cores
        self._free_cores = cores
        self._free_gpus = dict.fromkeys(visible_gpus() if gpus is None else gpus, 1.0)

    def check(self, name: str, num_gpus: float) -> None:
        """Check that a job can ever run.

        Raises:
            BriskError: It needs more GPUs than there are.
        """
        if _whole_gpus(num_gpus) > len(self._free_gpus):
            raise BriskError(
                f"The job {name} needs {num_gpus:g} GPUs, and this machine has "
                f"{len(self._free_gpus)}. Use --gpus-per-job with a smaller number, or name the "
                f"GPUs in {VISIBLE_GPUS} if there are more."
            )

    def take(self, cores: int, num_gpus: float) -> Grant | None:
        """Cores and GPUs for a job; None if they are not free now.

        A job that needs more cores than there are gets all of them.
        """
        cores = min(cores, self.cores)
        share = min(1.0, num_gpus)
        count = _whole_gpus(num_gpus)
        fitting = [gpu for gpu, free in self._free_gpus.items() if free + _ROUNDING >= share]
        if cores > self._free_cores or count > len(fitting):
            return None
        # Shares of one GPU are taken from the fullest, which leaves others whole.
        chosen = sorted(fitting, key=lambda gpu: self._free_gpus[gpu])[:count]
        self._free_cores -= cores
        for gpu in chosen:
            self._free_gpus[gpu] -= share
        return Grant(cores, share, tuple(chosen))

    def give_back(self, grant: Grant) -> None:
        """Take back what a job had."""
        self._free_cores += grant.cores
        for gpu in grant.gpus:
            self._free_gpus[gpu] += grant.share


def visible_gpus() -> tuple[str, ...]:
    """Names of the NVIDIA GPUs that this process may use; found without importing torch."""
    listed = os.environ.get(VISIBLE_GPUS)
    if listed is not None:
        names = (name.strip() for name in listed.split(","))
        # As CUDA reads it: names after one that is no GPU, such as -1, do not count.
        return tuple(takewhile(lambda name: name and not name.startswith("-"), names))
    found = Path("/proc/driver/nvidia/gpus")
    count = len(list(found.iterdir())) if found.is_dir() else 0
    return tuple(map(str, range(count)))


def _whole_gpus(num_gpus: float) -> int:
    """How many GPUs a job uses, wholly or in part."""
    return -int(-num_gpus // 1) if num_gpus > 0 else 0
