"""The user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path | None:
    """`$XDG_CACHE_HOME`, or `~/.cache`; None for a user without a home folder.

    A relative path is ignored, as the XDG specification asks: what is loaded from the cache must
    not depend on the folder that a program is started in.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):
        return Path(given)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        return None


def make_folder(folder: Path) -> None:
    """Make a folder of the cache and all parents that are missing, for this user only."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
