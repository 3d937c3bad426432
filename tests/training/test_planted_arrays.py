"""Impossible numbers in a signed checkpoint never crash the process that resumes from it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PAIRS = ("snake/dqn", "cage2/ppo", "cartpole/per-dqn", "wildfire/rainbow")
PLANTS = 36


def test_planted_numbers_are_refused_or_harmless(tmp_path: Path):
    """A sample; tests/chaos plants every value in every array of every family and algorithm."""
    command = [sys.executable, "-m", "tests.training.planted", str(tmp_path), "1", str(PLANTS), "0"]
    done = subprocess.run([*command, *PAIRS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["pair"] for row in rows] == list(PAIRS)
    for row in rows:
        assert row["failures"] == [], row["pair"]
        assert row["ran"] + row["refused"] == PLANTS
        # Most arrays hold numbers that only a few values fit.
        assert row["refused"] > PLANTS // 4, row
