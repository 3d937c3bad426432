"""Sides of a comparison that are measured in turns, each in a process of its own.

A library that is in another virtual environment is measured with that environment's Python.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.peers.ppo_settings import Scale
from briskrl.bench.config import PeersBench
from briskrl.bench.process import BenchProcess
from briskrl.bench.steadiness import one_core
from briskrl.core.errors import ConfigError, nearest

RUNNERS = Path(__file__).parent / "runners"

LEARNERS = {
    "jax": "jax_ppo.py",
    "pufferlib": "pufferlib_ppo.py",
    "sample-factory": "sample_factory_ppo.py",
    "tianshou": "tianshou_ppo.py",
}
"""Libraries that train, and the scripts that train with them."""
STEPPERS = {"envpool": "envpool_steps.py"}
"""Libraries that step environments, and the scripts that do."""
VARIABLE = "BRISK_PEER_PYTHON"
"""Says where the Pythons are, as in jax=/path/to/python,tianshou=/path/to/another."""
OURS = "briskrl"
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
"""What makes JAX compute in one thread."""


@dataclass(frozen=True, slots=True)
class Side:
    """What one side did, medians over the turns."""

    version: str
    steps_per_cpu_s: float
    steps_per_s: float
    start_cpu_s: float
    """CPU seconds until the first round was over."""
    rounds: int
    """Rollouts, and the learning from each if there is any, in a turn."""
    mean_return: float | None
    """Of the episodes that ended in the last turn, if somebody learns."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Sides:
    """What we did and what the others did."""

    ours: Side
    peers: dict[str, Side]
    cpu_ratio: dict[str, float]
    """Steps per CPU second, ours over each peer's: median over the turns."""
    wall_ratio: dict[str, float]
    """Steps per second likewise; tells something on an idle machine alone."""
    missing: tuple[str, ...]
    """Peers that no Python was given for."""
    scale: Scale | None
    """What was trained; None if nothing was."""
    threads: int
    slices: int
    notes: str


def peer_pythons(given: Mapping[str, Any]) -> dict[str, str]:
    """Where the Python of each library is, from the option and from the environment variable.

    Raises:
        ConfigError: A library is unknown, or there is no such program.
    """
    words = [word for word in os.environ.get(VARIABLE, "").split(",") if word]
    found = {name: path for name, _, path in (word.partition("=") for word in words)}
    found |= {name: str(path) for name, path in given.items()}
    known = LEARNERS | STEPPERS
    for name, path in found.items():
        if name not in known:
            raise ConfigError(f"There is no peer {name!r} to measure. {nearest(name, known)}")
        if shutil.which(path) is None:
            raise ConfigError(f"The Python of {name} is not at {path!r}.")
    return found


def measure_sides(
    ours: list[str],
    scripts: Mapping[str, str],
    settings: str,
    bench: PeersBench,
    *,
    scale: Scale | None,
    notes: str,
) -> Sides:
    """Have every side do rounds in alternating turns.

    Args:
        ours: The command of our side.
        scripts: Peers, and the scripts in `runners` that are their sides.
        settings: What the scripts are called with.
        bench: How to measure, and where the peers' Pythons are.
        scale: What is trained.
        notes: What to know about the figures.

    Raises:
        ConfigError: A peer's Python cannot be used.
        ProcessDiedError: A side ended, for example because its library is not installed there.
    """
    pythons = peer_pythons(bench.peer_python)
    with (
        TemporaryDirectory(prefix="brisk-bench-") as folder,
        one_core(bench.threads),
        ExitStack() as stack,
    ):
        processes = {OURS: stack.enter_context(_process(ours, bench.threads))}
        for peer, script in scripts.items():
            if peer in pythons:
                command = [pythons[peer], str(RUNNERS / script), settings]
                # Some leave things in the folder they are started in.
                process = _process(command, bench.threads, Path(folder))
                processes[peer] = stack.enter_context(process)
        sides = {side: Turns(process, bench.seconds) for side, process in processes.items()}
        # The first turn says how long turns have to be and does not count.
        for k in range(bench.slices + 1):
            for side in _rotated(list(sides), k):
                sides[side].take()
    return _figures(sides, bench, tuple(scripts), scale, notes)


def _process(command: list[str], threads: int, folder: Path | None = None) -> BenchProcess:
    """A side that uses so many threads, whatever it computes with."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    variables = {"JAX_PLATFORMS": "cpu", **dict.fromkeys(names, str(threads))}
    if threads == 1:
        variables["XLA_FLAGS"] = ONE_THREAD
    return BenchProcess(command, environment=os.environ | variables, folder=folder)


def _rotated(names: list[str], k: int) -> list[str]:
    k %= len(names)
    return names[k:] + names[:k]


class Turns:
    """One side's turns.

    Args:
        process: The side.
        cpu_s: CPU seconds that a turn should take; it has one round at least.
    """

    def __init__(self, process: BenchProcess, cpu_s: float) -> None:
        self._process = process
        self._cpu_s = cpu_s
        self.rounds = 1
        self.mean_return: float | None = None
        self.per_cpu_s: list[float] = []
        self.per_s: list[float] = []

    def take(self) -> None:
        """Take a turn; the first one only finds out how many rounds the others have."""
        answer = self._process.request(str(self.rounds))
        cpu_s, wall_s = max(answer["cpu_s"], 1e-9), max(answer["wall_s"], 1e-9)
        if not self.per_cpu_s:
            self.rounds = max(1, round(self._cpu_s / cpu_s))
        self.per_cpu_s.append(answer["steps"] / cpu_s)
        self.per_s.append(answer["steps"] / wall_s)
        self.mean_return = answer["mean_return"]

    def side(self) -> Side:
        """The figures, the first turn left out."""
        ready = self._process.ready
        return Side(
            version=ready["version"],
            steps_per_cpu_s=float(np.median(self.per_cpu_s[1:])),
            steps_per_s=float(np.median(self.per_s[1:])),
            start_cpu_s=ready["start_cpu_s"],
            rounds=self.rounds,
            mean_return=self.mean_return,
            note=ready["note"],
        )


def _figures(
    sides: dict[str, Turns],
    bench: PeersBench,
    wanted: tuple[str, ...],
    scale: Scale | None,
    notes: str,
) -> Sides:
    ours = sides.pop(OURS)
    cpu, wall = (np.array(speeds[1:]) for speeds in (ours.per_cpu_s, ours.per_s))
    return Sides(
        ours=ours.side(),
        peers={name: side.side() for name, side in sides.items()},
        cpu_ratio={n: float(np.median(cpu / s.per_cpu_s[1:])) for n, s in sides.items()},
        wall_ratio={n: float(np.median(wall / s.per_s[1:])) for n, s in sides.items()},
        missing=tuple(name for name in wanted if name not in sides),
        scale=scale,
        threads=bench.threads,
        slices=bench.slices,
        notes=notes,
    )
