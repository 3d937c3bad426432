"""The lock of a run folder, which ensures one writer and ends with its process."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from contextlib import suppress
from pathlib import Path

from briskrl.core.errors import RunFolderError
from briskrl.core.processes import process_exists
from briskrl.core.state_checks import MALFORMED, whole
from briskrl.training.storage.atomic_files import storage_errors, write_all
from briskrl.training.storage.own_files import open_in_place
from briskrl.training.storage.strict_json import parse_json

_LARGEST_PID = 2**31 - 1
# Errors of flock on file systems without locks; there the owner's process id decides.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


class FolderLockedError(RunFolderError):
    """Another running process holds the lock of a folder."""


class FolderLock:
    """The `lock` file of a run folder, held through the kernel, so it ends with its process.

    The file names the owner (process and host) for the error message of a second writer. After a
    release it remains, empty.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor >= 0

    @property
    def descriptor(self) -> int:
        """The open file that holds the lock; a process that gets it holds the lock, too."""
        return self._descriptor

    def acquire(self) -> None:
        """Acquire the lock; a lock whose owner has died is taken over.

        Raises:
            FolderLockedError: Another running process holds the lock.
            RunFolderError: The file is a link.
        """
        if self.held:
            return
        with storage_errors(f"write the lock file {self.path}"):
            descriptor = open_in_place(self.path)
        try:
            if self._taken(descriptor):
                raise self._locked_error(_owner(descriptor))
            text = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
            with storage_errors(f"write the lock file {self.path}"):
                os.ftruncate(descriptor, 0)
                write_all(descriptor, text.encode() + b"\n")
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock; may be called twice."""
        if self.held:
            # A disk that fails cannot forget the owner; closing releases the lock all the same.
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1

    def _taken(self, descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return _alive(_owner(descriptor))
        return False

    def _locked_error(self, owner: dict[str, object]) -> FolderLockedError:
        who = f"process {owner['pid']} on {owner['host']}" if owner else "another process"
        return FolderLockedError(
            f"The run folder {self.path.parent} is being written by {who}. Stop that process first "
            f"(it saves and exits), or delete {self.path} if it no longer exists."
        )


def _owner(descriptor: int) -> dict[str, object]:
    """The process named in the lock file; empty if none is."""
    try:
        owner = parse_json(os.pread(descriptor, 4096, 0))
        return {"pid": whole(owner, "pid", _LARGEST_PID), "host": str(owner["host"])}
    except (OSError, *MALFORMED):
        return {}


def _alive(owner: dict[str, object]) -> bool:
    """Whether the owner may still be running; assumed for an owner on another host."""
    if not owner or owner["pid"] == os.getpid():
        return False
    if owner["host"] != socket.gethostname():
        return True
    return process_exists(int(str(owner["pid"])))
