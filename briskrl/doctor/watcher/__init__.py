"""The watcher: the part of the doctor that runs inside an examined script.

It needs nothing but the standard library, of Python 3.8 or newer, because the script may run in an
interpreter that has no briskrl. `bootstrap/sitecustomize.py` loads it before the script. It counts
environment steps and updates, notes which code runs at every tick that the doctor sends, and
changes settings for a moment when the doctor asks for it. It interprets nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping


def bootstrap_folder() -> str:
    """The folder to put first in PYTHONPATH, with the name of another in BRISK_WATCH."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap")


def watch_variables(folder: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables with which a Python program is watched.

    Args:
        folder: Where it writes what it sees.
        environment: Its other variables.
    """
    before = environment.get("PYTHONPATH")
    path = [bootstrap_folder(), *([before] if before else [])]
    variables = {"BRISK_WATCH": folder, "PYTHONPATH": os.pathsep.join(path)}
    if before is not None:
        variables["BRISK_WATCH_PYTHONPATH"] = before
    return variables
