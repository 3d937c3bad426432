"""Starts disk_runs.py in a mount namespace of its own, so that its disks end with it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]


@cache
def mounts_allowed() -> bool:
    """Whether this process may mount a disk of its own."""
    if shutil.which("unshare") is None:
        return False
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(probe, capture_output=True).returncode == 0


def run_faults(folder: Path, names: list[str], timeout: float = 600) -> dict[str, Any]:
    """What happened to the runs with these faults, or on disks of these sizes."""
    command = [sys.executable, "-m", "tests.training.disk_runs", str(folder), *names]
    if mounts_allowed():
        command = ["unshare", "-m", *command]
    result = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=timeout)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found
