"""The user's folders for caches and for the state of programs."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path | None:
    """`$XDG_CACHE_HOME`, or `~/.cache`; None for a user without a home folder."""
    return _user_folder("XDG_CACHE_HOME", ".cache")


def user_state() -> Path | None:
    """`$XDG_STATE_HOME`, or `~/.local/state`; None for a user without a home folder."""
    return _user_folder("XDG_STATE_HOME", ".local/state")


def _user_folder(variable: str, default: str) -> Path | None:
    """A folder that the XDG specification names.

    A relative path is ignored, as the specification asks: what is loaded from the cache must not
    depend on the folder that a program is started in.
    """
    given = os.environ.get(variable, "")
    if os.path.isabs(given):
        return Path(given)
    try:
        return Path.home() / default
    except RuntimeError:
        return None


def make_folder(folder: Path) -> None:
    """Make a folder of the user's and all parents that are missing, for this user only."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
