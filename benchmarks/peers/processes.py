"""PPO training and environment steps of ours and other libraries, each in its own process.

A library in another virtual environment is measured with the Python of that environment, see
`runners`. For PPO every side trains the CartPole its authors would use, with the same network,
rollout, minibatches, epochs, loss and optimizer.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.peers.compare import PeersBench
from benchmarks.peers.ppo_settings import PROCESS_SCALE, Scale, process_config, runner_settings
from briskrl.bench.compare import PairedComparison, median_ratio
from briskrl.bench.process import BenchProcess
from briskrl.bench.steadiness import one_core
from briskrl.core.config import to_toml
from briskrl.core.errors import ConfigError, nearest
from briskrl.envs.cartpole.config import CartPoleConfig
from briskrl.training.resolve import complete

RUNNERS = Path(__file__).parent / "runners"
LEARNERS = {
    "jax": "jax_ppo.py",
    "pufferlib": "pufferlib_ppo.py",
    "sample-factory": "sample_factory_ppo.py",
    "tianshou": "tianshou_ppo.py",
}
"""Libraries that train PPO, and their runners."""
STEPPERS = {"envpool": "envpool_steps.py"}
"""Libraries that step environments, and their runners."""
VARIABLE = "BRISK_PEER_PYTHON"
"""Environment variable with Python interpreters, as in jax=/path/to/python,tianshou=/other."""
OURS = "briskrl"
XLA_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
"""XLA flags that make JAX compute in one thread."""

PPO_NOTES = (
    "Each side in its own process, in slices of whole rollouts and the learning from them; medians "
    "over the turns. Each has its own CartPole: ours compiled, JAX's inside its one compiled "
    "program, PufferLib's in C (its episodes end after 200 steps), Gymnasium's one by one with "
    "Tianshou and Sample Factory, which is limited to one process and does not collect ahead. "
    "start_cpu_s is the CPU time from the start of the process to the end of the first round; ours "
    "uses the cache of compiled kernels if there is one."
)
STEP_NOTES = (
    "Each side in its own process, in slices of steps with the same random actions. EnvPool's "
    "games in C++ go through its own queues and threads, ours are one compiled call."
)


@dataclass(frozen=True, slots=True)
class Side:
    """Figures of one side, medians over the slices."""

    version: str
    steps_per_cpu_s: float
    steps_per_s: float
    start_cpu_s: float
    """CPU seconds until the first round was over."""
    rounds: int
    """Rounds per slice: rollouts with the learning from them, if any."""
    mean_return: float | None
    """Of episodes that ended in the last slice, if the side learns."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """Figures of ours and of the peers."""

    ours: Side
    peers: dict[str, Side]
    cpu_ratio: dict[str, float]
    """Steps per CPU second, ours over each peer's: median over the turns."""
    wall_ratio: dict[str, float]
    """Steps per second of wall time, likewise; meaningful on an idle machine only."""
    missing: tuple[str, ...]
    """Peers without a Python interpreter."""
    scale: Scale | None
    """Scale of training; None for steps alone."""
    threads: int
    slices: int
    notes: str


def measure_ppo_processes(bench: PeersBench) -> ProcessFigures:
    """Train PPO with every side in alternating slices; see `measure_processes`."""
    config = complete(process_config(engine=bench.engine, threads=bench.threads, seed=bench.seed))
    settings = json.dumps(runner_settings(config))
    with TemporaryDirectory(prefix="brisk-bench-") as folder:
        file = Path(folder) / "config.toml"
        file.write_text(to_toml(config))
        script = str(RUNNERS / "briskrl_ppo.py")
        ours = [sys.executable, script, str(file), str(Path(folder) / "run")]
        return measure_processes(
            ours, LEARNERS, settings, bench, scale=PROCESS_SCALE, notes=PPO_NOTES
        )


def measure_env_steps(bench: PeersBench) -> ProcessFigures:
    """Step CartPole with random actions in alternating slices; see `measure_processes`."""
    settings = json.dumps(
        {
            "num_envs": PROCESS_SCALE.num_envs,
            "update_steps": PROCESS_SCALE.update_steps,
            "max_steps": CartPoleConfig().max_steps,
            "seed": bench.seed,
            "threads": bench.threads,
        }
    )
    ours = [sys.executable, str(RUNNERS / "briskrl_steps.py"), settings]
    return measure_processes(ours, STEPPERS, settings, bench, scale=None, notes=STEP_NOTES)


def peer_pythons(given: Mapping[str, Any]) -> dict[str, str]:
    """The Python interpreter of each library, from the option and the environment variable.

    Raises:
        ConfigError: A library is unknown, or an interpreter does not exist.
    """
    words = [word for word in os.environ.get(VARIABLE, "").split(",") if word]
    found = {name: path for name, _, path in (word.partition("=") for word in words)}
    found |= {name: str(path) for name, path in given.items()}
    known = LEARNERS | STEPPERS
    for name, path in found.items():
        if name not in known:
            raise ConfigError(f"Unknown peer {name!r}. {nearest(name, known)}")
        if shutil.which(path) is None:
            raise ConfigError(f"The Python of {name} is not at {path!r}.")
    return found


def measure_processes(
    ours: list[str],
    scripts: Mapping[str, str],
    settings: str,
    bench: PeersBench,
    *,
    scale: Scale | None,
    notes: str,
) -> ProcessFigures:
    """Run rounds of every side in alternating slices.

    Args:
        ours: Command of our side.
        scripts: Peers and their scripts in `runners`.
        settings: Argument of the scripts, as JSON.
        bench: How to measure, and the peers' Python interpreters.
        scale: Scale of training.
        notes: Remarks to go with the figures.

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
        processes = {OURS: stack.enter_context(_start(ours, bench.threads))}
        for peer, script in scripts.items():
            if peer in pythons:
                command = [pythons[peer], str(RUNNERS / script), settings]
                # Some libraries write files into their working directory.
                process = _start(command, bench.threads, Path(folder))
                processes[peer] = stack.enter_context(process)
        sides = {name: ProcessSide(each, bench.seconds) for name, each in processes.items()}
        comparison = PairedComparison(**{name: side.run_slice for name, side in sides.items()})
        # The first slice determines the length of the others and does not count.
        for side in sides.values():
            side.calibrate()
        comparison.take_turns(bench.slices)
    return _figures(sides, comparison, bench, tuple(scripts), scale, notes)


def _start(command: list[str], threads: int, folder: Path | None = None) -> BenchProcess:
    """Start a side with a limited number of threads."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    variables = {"JAX_PLATFORMS": "cpu", **dict.fromkeys(names, str(threads))}
    if threads == 1:
        variables["XLA_FLAGS"] = XLA_ONE_THREAD
    return BenchProcess(command, environment=os.environ | variables, folder=folder)


class ProcessSide:
    """Slices of one side.

    Args:
        process: The runner.
        cpu_s: CPU seconds per slice; it has at least one round.
    """

    def __init__(self, process: BenchProcess, cpu_s: float) -> None:
        self._process = process
        self._cpu_s = cpu_s
        self.rounds = 1
        self.mean_return: float | None = None
        self.wall_rates: list[float] = []
        """Steps per second of wall time, one per slice."""

    def calibrate(self) -> None:
        """Run one round, and set the number of rounds per slice."""
        cpu_s = self._process.request(str(self.rounds))["cpu_s"]
        self.rounds = max(1, round(self._cpu_s / max(cpu_s, 1e-9)))

    def run_slice(self) -> float:
        """Run one slice; returns steps per CPU second."""
        answer = self._process.request(str(self.rounds))
        self.wall_rates.append(answer["steps"] / max(answer["wall_s"], 1e-9))
        self.mean_return = answer["mean_return"]
        return float(answer["steps"] / max(answer["cpu_s"], 1e-9))

    def figures(self, steps_per_cpu_s: float) -> Side:
        """The figures of all slices, with their median rate by CPU time."""
        ready = self._process.ready
        return Side(
            version=ready["version"],
            steps_per_cpu_s=steps_per_cpu_s,
            steps_per_s=median(self.wall_rates),
            start_cpu_s=ready["start_cpu_s"],
            rounds=self.rounds,
            mean_return=self.mean_return,
            note=ready["note"],
        )


def _figures(
    sides: dict[str, ProcessSide],
    comparison: PairedComparison,
    bench: PeersBench,
    wanted: tuple[str, ...],
    scale: Scale | None,
    notes: str,
) -> ProcessFigures:
    figures = {name: side.figures(comparison.median(name)) for name, side in sides.items()}
    peers = [name for name in sides if name != OURS]
    wall = {name: side.wall_rates for name, side in sides.items()}
    return ProcessFigures(
        ours=figures[OURS],
        peers={name: figures[name] for name in peers},
        cpu_ratio={name: comparison.median_ratio(OURS, name) for name in peers},
        wall_ratio={name: median_ratio(wall[OURS], wall[name]) for name in peers},
        missing=tuple(name for name in wanted if name not in sides),
        scale=scale,
        threads=bench.threads,
        slices=bench.slices,
        notes=notes,
    )
