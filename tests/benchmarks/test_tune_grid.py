"""The benchmark scripts of the tuner."""

from __future__ import annotations

import json
import subprocess
import sys
from math import exp

import numpy as np
import pytest

from benchmarks import tune_grid as script
from briskrl.tuning.space import Point
from briskrl.tuning.trials import TrialError
from tests.cli.conftest import ROOT, environment


class Machine:
    """A simulated machine that gets slower; rates grow with a setting."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self.calls = 0
        self.floors: list[float] = []

    def rate(self, point: Point, floor: float = 0.0) -> float:
        self.calls += 1
        self.floors.append(floor)
        if point["num_envs"] == 3:
            raise TrialError("Three do not work.")
        return int(point["num_envs"]) * exp(0.02 * self._rng.standard_normal() - 0.01 * self.calls)


def test_the_grid_ranks_all_working_points_by_median_rates() -> None:
    machine = Machine()
    points = [Point((("num_envs", count),)) for count in (2, 16, 3, 4, 8)]
    found = script.measure(points, machine, rounds=9)
    assert machine.calls == 45
    assert [point["num_envs"] for point in found] == [16, 8, 4, 2]
    first, *_, last = found.values()
    assert exp(first - last) == pytest.approx(8, rel=0.1)
    assert machine.floors[0] == 0
    assert max(machine.floors) <= script.HOPELESS * 16 * 1.1


def test_the_learning_study_reports_what_its_file_has() -> None:
    path = ROOT / "benchmarks" / "tune_learning.jsonl"
    command = [sys.executable, str(ROOT / "benchmarks" / "tune_learning.py"), str(path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")][2:]
    runs = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == len({run["variant"] for run in runs})
    page = (ROOT / "docs" / "background" / "tune-methods.md").read_text()
    for row in rows:
        assert " | ".join(row.strip("| ").split(" | ")[1:]) in page
