"""The script behind the README's table of ratios."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import ROOT, environment

TINY = ("--steps", "12000", "--episodes", "4", "--num-envs", "64", "--seeds", "1")


def table(tmp_path: Path, *words: str) -> list[list[str]]:
    command = [sys.executable, str(ROOT / "benchmarks" / "ratio_table.py"), *TINY, *words]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_row_tells_cost_and_score_of_one_preset(tmp_path: Path) -> None:
    words = ("--cpu-seconds", "0.3", "--presets", "debug", "balanced")
    header, rule, debug, balanced = table(tmp_path, *words)
    assert len(header) == len(rule) == len(debug) == len(balanced) == 8
    assert debug[:2] == ["`debug`", "0.004"]
    assert balanced[:2] == ["`balanced`", "0.125"]
    cells = [[float(cell.replace(",", "")) for cell in row[1:]] for row in (debug, balanced)]
    for ratio, speed, updates, cpu_s, score, steps, equal_score in cells:
        assert min(speed, updates, cpu_s, steps) > 0
        # 10,000 of the 12,032 steps come before learning starts.
        assert updates == int(2032 * ratio)
        assert min(score, equal_score) >= 0
