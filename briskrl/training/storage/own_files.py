"""Files and folders of a run, opened so that links in the run folder lead nowhere.

A run folder may come from somebody else. A link in it would direct writes to a file outside, so
whatever is written in place must be a regular file under one name. Files that are replaced as a
whole need no check: a rename replaces the link, not its target.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from briskrl.core.errors import RunFolderError

MAX_BYTES = 16_000_000
"""Largest description (JSON, TOML) that is read; ours have a few kilobytes."""
_COPY = "Copy the run folder with `cp -rL`, which copies what links point to, and use the copy."
_DELETE = "Delete it, or move it elsewhere."


def open_in_place(path: Path, flags: int = 0) -> int:
    """A descriptor to read and write `path`, which is created if it is missing.

    Raises:
        RunFolderError: It is a link, has a second name (hard link), or is not a regular file.
        OSError: It cannot be opened.
    """
    # Without O_NONBLOCK, opening a pipe could wait forever.
    flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            check_file(path)
        raise
    try:
        _check_regular(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_file(path: Path) -> None:
    """Check that `path` is missing, or a regular file under one name.

    Raises:
        RunFolderError: It is something else.
    """
    found = _lstat(path)
    if found is not None:
        _check_regular(path, found)


def check_folder(path: Path) -> None:
    """Check that `path` is missing, or a folder and not a link to one.

    Raises:
        RunFolderError: It is something else.
    """
    found = _lstat(path)
    if found is None or stat.S_ISDIR(found.st_mode):
        return
    if stat.S_ISLNK(found.st_mode):
        raise RunFolderError(f"{path} is a link; a run writes only inside its folder. {_COPY}")
    raise RunFolderError(f"{path} is not a folder. {_DELETE}")


def read_regular(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The content of a regular file, which may be reached through a link.

    Raises:
        OSError: It cannot be read, or is not a regular file.
        ValueError: It has more than `limit` bytes.
    """
    with open(open_regular(path), "rb") as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise ValueError(f"{path} has more than {limit:,} bytes")
        return file.read()


def open_regular(path: Path) -> int:
    """A descriptor to read a regular file, which may be reached through a link.

    Raises:
        OSError: It cannot be opened, or is not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return descriptor


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _check_regular(path: Path, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise RunFolderError(f"{path} is a link; a run writes only inside its folder. {_COPY}")
    if not stat.S_ISREG(found.st_mode):
        raise RunFolderError(f"{path} is not a regular file. {_DELETE}")
    if found.st_nlink > 1:
        raise RunFolderError(
            f"{path} is a hard link, so writing to it would change another file too. {_COPY}"
        )
