"""Memory to share with other processes, as a file without a name."""

from __future__ import annotations

import os
import tempfile


def anonymous_file(name: str, size: int) -> int:
    """A file descriptor of zeroed memory without a name in the file system.

    Args:
        name: For tools that list open files.
        size: Bytes; pages that are never used take none.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create(name, os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile(buffering=0) as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd
