"""The watcher: the part of the doctor that runs inside an examined script.

It needs nothing but the standard library, of Python 3.8 or newer, because the script may run in an
interpreter that has no briskrl. `bootstrap/sitecustomize.py` loads it before the script. It counts
environment steps and updates, notes which code runs at every tick that the doctor sends, and
changes settings for a moment when the doctor asks for it. It interprets nothing.
"""

from __future__ import annotations

import os


def bootstrap_folder() -> str:
    """The folder to put first in PYTHONPATH, with the name of another in BRISK_WATCH."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap")
