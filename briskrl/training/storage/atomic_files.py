"""Write files so that a crash at any moment leaves either the old content or the new one."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from briskrl.core.errors import StorageError
from briskrl.core.types import JSON
from briskrl.training.storage.own_files import open_regular

TEMPORARY = ".tmp-"
"""Prefix of the names of unfinished files and folders."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """Size in bytes and BLAKE2b-256 (hex) of a file's content."""

    size: int
    digest: str


def write_new(
    path: Path, blocks: Iterable[bytes | memoryview], *, durable: bool = True
) -> FileRecord:
    """Create `path` from the blocks, in order; if durable, it is on disk when this returns.

    Raises:
        FileExistsError: There is something under that name, be it a link to nowhere.
    """
    content = hashlib.blake2b(digest_size=32)
    size = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        for block in blocks:
            write_all(descriptor, block)
            content.update(block)
            size += len(block)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return FileRecord(size, content.hexdigest())


def write_all(descriptor: int, block: bytes | memoryview) -> None:
    """Write every byte of the block; normally in one system call."""
    rest = memoryview(block)
    while len(rest) > 0:
        rest = rest[os.write(descriptor, rest) :]


def hash_bytes(data: bytes) -> str:
    """BLAKE2b-256 (hex), as `FileRecord.digest`."""
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def measure(path: Path) -> FileRecord:
    """Size and hash of a file, read in small blocks."""
    with os.fdopen(open_regular(path), "rb") as file:
        content = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32))
        return FileRecord(file.tell(), content.hexdigest())


def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace the content of `path` atomically; if durable, it also survives a power cut."""
    temporary = path.with_name(TEMPORARY + path.name)
    try:
        temporary.unlink(missing_ok=True)
        write_new(temporary, [data], durable=durable)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def make_folder(path: Path, *, exist_ok: bool = True) -> None:
    """Create a folder and its parents where they are missing; they survive a power cut."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=exist_ok)
    for folder in missing:
        # A folder that may be written but not listed cannot be opened; others can be synced.
        with suppress(PermissionError):
            sync_folder(folder.parent)


def sync_file(path: Path) -> None:
    """Flush the content of a file to disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Flush the entries of a folder to disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def json_bytes(value: JSON) -> bytes:
    """Indented JSON; raises a ValueError for NaN and infinities."""
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


@contextmanager
def storage_errors(action: str) -> Iterator[None]:
    """Turn an OSError inside the block into a StorageError that names the failed action."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"Could not {action}: {cause(error)}. {remedy(error)}") from error


def cause(error: OSError) -> str:
    """The operating system's message of an error."""
    return error.strerror or str(error) or type(error).__name__


def remedy(error: OSError) -> str:
    """What the user can do about a failed write."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "Free some space, or use a disk that has more."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Make the folder writable for this user, or use another one."
    return "Check the disk, or use another folder."
