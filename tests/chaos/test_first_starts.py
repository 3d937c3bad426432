"""Four first starts at the same time share one empty cache of kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.runs import policy_hash

STARTS = 4

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_four_simultaneous_first_starts_compile_and_agree(algo: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "briskrl", "train", "snake", "--algo", algo, "--json"]
    command += ["--engine", "fused", "--num-envs", "16", "--steps", "20000", "--run-dir"]
    folders = [tmp_path / f"run-{number}" for number in range(STARTS)]
    starts = [
        subprocess.Popen(
            [*command, str(folder)],
            stdout=subprocess.DEVNULL,
            env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        )
        for folder in folders
    ]
    assert [start.wait(1200) for start in starts] == [0] * STARTS
    assert len({policy_hash(folder) for folder in folders}) == 1
    assert list((tmp_path / "cache").rglob("*.nbc"))
