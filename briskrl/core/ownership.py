"""Who can change a file: the user of this process alone, or others too."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path


def why_foreign(paths: Iterable[Path]) -> str | None:
    """Why files or folders are not only ours, as in "x belongs to another user"; None if they are.

    Paths that do not exist are left out. Where the system has no user ids, everything is ours.
    """
    if not hasattr(os, "getuid"):
        return None
    for path in paths:
        try:
            info = path.stat()
        except OSError:
            continue
        if info.st_uid != os.getuid():
            return f"{path} belongs to another user (uid {info.st_uid})"
        if info.st_mode & stat.S_IWOTH or _is_shared_with_group(info):
            return f"{path} can be changed by other users"
    return None


def _is_shared_with_group(info: os.stat_result) -> bool:
    # A group with the id of its user has no other members; with it, Debian and others create
    # group-writable files by default.
    return bool(info.st_mode & stat.S_IWGRP) and info.st_gid != info.st_uid
