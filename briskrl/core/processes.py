"""Processes of this machine: others, and this one."""

from __future__ import annotations

import os


def process_exists(pid: int) -> bool:
    """Whether this machine has a process of that number."""
    if not 0 < pid < 2**31:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def resident_mb() -> float:
    """Memory of this process that is in RAM, in MB (2**20 bytes)."""
    import psutil

    return float(psutil.Process().memory_info().rss) / 2**20
