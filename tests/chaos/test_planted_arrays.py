"""Every array of a checkpoint, every impossible value: refused or harmless, never out of bounds.

Run with `make chaos`. The second test compiles all kernels again with bounds checks, into a cache
of its own, which takes about a minute per family.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.planted import ALGOS, FAMILIES

pytestmark = pytest.mark.chaos
PAIRS = [f"{family}/{algo}" for family in FAMILIES for algo in ALGOS]
POSITIONS = 3
"""Random places of every array for every value; memory of environments has more below."""


def plant_all(folder: Path, pair: str, positions: int, limit: int, **env: str) -> dict:
    command = [sys.executable, "-m", "tests.training.planted"]
    command += [str(folder), str(positions), str(limit), "1", pair]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("pair", PAIRS)
def test_every_planted_number_is_refused_or_harmless(tmp_path: Path, pair: str):
    found = plant_all(tmp_path, pair, POSITIONS, 0)
    print(f"{pair}: {found['refused']} refused, {found['ran']} harmless")
    assert found["failures"] == []
    assert found["refused"] > found["ran"]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_planted_number_becomes_an_index_out_of_bounds(tmp_path_factory, family: str):
    """Compiled with bounds checks, where a wrong index raises an IndexError."""
    cache = tmp_path_factory.getbasetemp() / "checked-kernels"
    for algo in ("dqn", "ppo"):
        found = plant_all(
            tmp_path_factory.mktemp(family),
            f"{family}/{algo}",
            2,
            300,
            NUMBA_BOUNDSCHECK="1",
            XDG_CACHE_HOME=str(cache),
        )
        assert found["failures"] == []
