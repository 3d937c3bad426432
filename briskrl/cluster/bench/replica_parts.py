"""How the speed of one run grows with its replicas.

Every run is a `brisk train` in a process of its own, as users start it. Its steps per second leave
out its start.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Literal

from briskrl.bench.command import Report
from briskrl.bench.compare import PairedComparison
from briskrl.cluster.bench.command import ClusterBench, ExecutorFigures
from briskrl.cluster.bench.ratios import interval_of
from briskrl.cluster.bench.workloads import compute_run, delay_run
from briskrl.core.config import to_toml
from briskrl.core.errors import BriskError
from briskrl.core.scratch_folder import ScratchFolder
from briskrl.training.config import TrainConfig

TASKS = ("cartpole", "cage2")
_CALIBRATION_STEPS = 100_000
_AVERAGE = "average"
"""Name of the phase in which gradients are averaged."""


class ReplicaRuns:
    """Runs of `brisk train` with different numbers of replicas.

    Args:
        folder: Where run folders go; must not exist.
        executor: Where the replicas run.
        address: Ray cluster to use.
    """

    def __init__(self, folder: Path, executor: str, address: str | None) -> None:
        folder.mkdir()
        self._folder = folder
        self._where = ["--executor", executor] if executor != "local" else []
        self._where += ["--address", address] if address and executor != "local" else []
        self._numbers = count()
        self.averaging_shares: list[float] = []
        """Of the runs with more than one replica."""

    def rate(self, config: TrainConfig, replicas: int) -> float:
        """Train; returns steps per second.

        Raises:
            BriskError: The run has failed.
        """
        number = next(self._numbers)
        file = self._folder / f"config-{number}.toml"
        file.write_text(to_toml(config))
        command = [sys.executable, "-P", "-m", "briskrl", "train", "--config", str(file)]
        command += ["--run-dir", str(self._folder / f"run-{number}"), "--json"]
        # An evaluation would take longer than the training on the environment that sleeps.
        command += ["--final-episodes", "0"]
        command += ["--replicas", str(replicas), *(self._where if replicas > 1 else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise BriskError(f"brisk train with {replicas} replicas has failed: {lines[-1]}")
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if replicas > 1:
            phases = result["phases"]
            self.averaging_shares.append(phases.get(_AVERAGE, 0.0) / sum(phases.values()))
        return float(result["steps_per_s"])

    def compare(
        self, config: TrainConfig, replicas: int, turns: int, what: str, report: Report
    ) -> PairedComparison:
        """Steps per second with one replica ("one") and with more ("many"), in turns."""
        sides = PairedComparison(
            one=partial(self.rate, config, 1), many=partial(self.rate, config, replicas)
        )
        for turn in range(turns):
            report(f"{replicas} replicas {what}, turn {turn + 1} of {turns}")
            sides.take_turn()
        return sides


def measure_replicas(
    name: Literal["local", "ray"], bench: ClusterBench, figures: ExecutorFigures, report: Report
) -> None:
    """Fill in the ratios of replicas and the shares of averaging.

    Raises:
        BriskError: Replicas cannot be used, or a run has failed.
    """
    if "replicas" not in bench.parts:
        return
    with ScratchFolder("brisk-bench-") as folder:
        for task in TASKS:
            runs = ReplicaRuns(Path(folder, task), name, bench.address)
            rate = runs.rate(compute_run(task, _CALIBRATION_STEPS), 1)
            sides = runs.compare(
                compute_run(task, rate * bench.seconds), 2, bench.slices, f"on {task}", report
            )
            figures.replicas_ratios[task] = sides.median_ratio("many", "one")
            figures.averaging_shares[task] = median(runs.averaging_shares)
            interval_of(figures, f"replicas_ratios.{task}", sides, "many", "one")
        figures.replicas_ratio = min(figures.replicas_ratios.values())
        figures.averaging_share = max(figures.averaging_shares.values())
        runs = ReplicaRuns(Path(folder, "delay"), name, bench.address)
        config = delay_run(4 * bench.seconds)
        sides = runs.compare(config, 4, bench.slices, "that sleep", report)
        figures.replicas_of_4_ratio = sides.median_ratio("many", "one")
        interval_of(figures, "replicas_of_4_ratio", sides, "many", "one")
