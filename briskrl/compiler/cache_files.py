"""Folders and files of the kernel cache: private to this user, and known to be whole.

Cache files are pickles, so loading one runs whatever code its author put into it. They are read
only from folders and files that belong to this user and that nobody else can write to. Every file
begins with a hash of the rest, so that damage is found before anything is loaded: damaged machine
code would crash the process.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

from briskrl.core.user_cache import make_folder

HASH_BYTES = 32


class UnusableCacheError(Exception):
    """A folder or file of the cache must not be used; the message is a clause that explains why."""


def make_private(folder: Path, *, below: Path) -> None:
    """Make a folder that only this user can read, and check all folders `below` the given one.

    Folders that are missing are made, parents included, with mode 0700.

    Raises:
        UnusableCacheError: One of them belongs to another user, or others can write to it.
        OSError: One of them cannot be made.
    """
    make_folder(folder)
    for part in [*reversed(folder.relative_to(below).parents), folder.relative_to(below)]:
        if part != Path():
            _check_folder(below / part)


def read_whole(path: str) -> bytes:
    """The content of a file that `write_whole` wrote.

    Raises:
        UnusableCacheError: The file is damaged, or another user may have written it.
        OSError: It cannot be read.
    """
    # A link could lead to the file of another user, and opening a pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise UnusableCacheError(f"{path} is not a file")
        _check_owner(path, info)
        content = file.read()
    expected, data = content[:HASH_BYTES], content[HASH_BYTES:]
    if _hash(data) != expected:
        raise UnusableCacheError(f"{path} is damaged")
    return data


def write_whole(path: str, data: bytes) -> None:
    """Write a file, or replace it; other processes see the old content or the new one.

    Raises:
        OSError: It cannot be written; the old content is as it was.
    """
    temporary = f"{path}.tmp.{uuid4().hex}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with open(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(_hash(data) + data)
        if os.path.isdir(path) and not os.path.islink(path):
            os.replace(path, f"{path}.damaged.{uuid4().hex}")
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=HASH_BYTES).digest()


def _check_folder(path: Path) -> None:
    if path.is_symlink() and path.lstat().st_uid != os.geteuid():
        raise UnusableCacheError(f"{path} is a link that another user has made")
    _check_owner(path, path.stat())


def _check_owner(path: Path | str, info: os.stat_result) -> None:
    """Check that only this user, or root, could have written a folder or file."""
    if info.st_uid != os.geteuid():
        raise UnusableCacheError(f"{path} belongs to another user (id {info.st_uid})")
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnusableCacheError(f"other users can write to {path}; to use it: chmod go-w {path}")
