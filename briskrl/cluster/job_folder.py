"""The folder that a job works in: its log, and its copy in a store."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from briskrl.cluster.job import nothing_to_publish
from briskrl.cluster.mirror import JOB_LOG, Mirror
from briskrl.cluster.storage import Store, try_again
from briskrl.core.errors import BriskError
from briskrl.training.storage.atomic_files import make_folder, storage_errors
from briskrl.training.storage.own_files import open_in_place


@dataclass(frozen=True, slots=True)
class JobFolder:
    """Where a job works."""

    path: Path
    publish: Callable[[], None]
    """See `JobContext`."""


def check_name(name: str) -> None:
    """Check that a job's name can be the path of a folder inside the storage.

    Raises:
        BriskError: It cannot.
    """
    parts = PurePosixPath(name).parts
    is_path = parts and parts[0] != "/" and ".." not in parts and "/".join(parts) == name
    if not is_path or not name.isprintable():
        raise BriskError(f"{name!r} cannot be the name of a job, which is a path such as a/b.")


@contextmanager
def open_job_folder(
    path: Path, name: str, store: Store | None, alive: Callable[[], None] = lambda: None
) -> Iterator[JobFolder]:
    """The folder of a job, with what an earlier attempt has left; output goes to its job.log.

    Args:
        path: The folder; made if it is missing.
        name: Name of the job, and path of its copy in the store.
        store: Where the copy is; None if there is none.
        alive: Called while files are copied.

    Raises:
        StorageError: The folder or the store cannot be used.
    """
    mirror = None if store is None else Mirror(store, name, path, alive)
    if mirror is not None:
        try_again(mirror.restore)
    with _output_to(open_log(path)):
        try:
            yield JobFolder(path, nothing_to_publish if mirror is None else mirror.publish)
        finally:
            if mirror is not None:
                mirror.publish_log()


def open_log(folder: Path) -> int:
    """A descriptor that appends to the log of a job; the folder is made if it is missing.

    Raises:
        StorageError: It cannot be written.
    """
    with storage_errors(f"write the folder of the job, {folder}"):
        make_folder(folder)
        return open_in_place(folder / JOB_LOG, os.O_APPEND)


@contextmanager
def _output_to(descriptor: int) -> Iterator[None]:
    """Direct standard output and error of this process, and of its children, to a descriptor."""
    before = {number: os.dup(number) for number in (1, 2)}
    try:
        _flush()
        for number in before:
            os.dup2(descriptor, number)
        os.close(descriptor)
        yield
    finally:
        _flush()
        for number, saved in before.items():
            os.dup2(saved, number)
            os.close(saved)


def _flush() -> None:
    """Write what was printed; on a full disk it is lost, which is no reason to lose the job."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
