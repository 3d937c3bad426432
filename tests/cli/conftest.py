from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

Brisk = Callable[..., subprocess.CompletedProcess[str]]


SMALL = ("--num-envs", "16", "--learning-starts", "500", "--buffer-size", "4096", "--net", "16")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A finished run made by the real command, and what `--json` printed."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    words = ("train", "snake", "--run-dir", str(folder), "--steps", "4000", *SMALL, "--json")
    command = [sys.executable, "-m", "briskrl", *words]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=300, check=True
    )
    return folder, done.stdout


@pytest.fixture
def brisk(tmp_path: Path) -> Brisk:
    """Run the real command in an empty folder."""

    def run(*words: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *python, "-m", "briskrl", *words]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path, "COLUMNS": "100"}
