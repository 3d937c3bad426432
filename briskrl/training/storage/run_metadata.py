"""Who, where and with what: the facts about a run that its numbers depend on."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from briskrl.core.cpu import cpu_model
from briskrl.core.types import JSON

_PACKAGES = ("briskrl", "torch", "numpy", "numba", "gymnasium", "safetensors")


def describe_machine() -> dict[str, JSON]:
    """Versions, source commit, host and processor; imports none of the packages it names."""
    versions = {name: _version(name) for name in _PACKAGES}
    return {
        "versions": {"python": platform.python_version(), **versions},
        "git_commit": _git_commit(),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "num_cpus": os.cpu_count(),
        "pid": os.getpid(),
        "command": sys.argv,
    }


def timestamp() -> str:
    """The present in UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """The commit of the package's own source, if it runs from a git checkout."""
    source = Path(__file__).resolve().parents[3]
    if not (source / ".git").exists():
        return None
    command = ["git", "-C", str(source), "rev-parse", "HEAD"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() or None
