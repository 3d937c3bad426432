from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

Brisk = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def brisk(tmp_path: Path) -> Brisk:
    """Run the real command in an empty folder."""

    def run(*words: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *python, "-m", "briskrl", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300
        )

    return run


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path, "COLUMNS": "100"}
