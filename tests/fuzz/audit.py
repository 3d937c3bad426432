"""Forbids what no file may cause: programs, network, code, imports, writes outside a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FORBIDDEN = (
    "ctypes.dlopen",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.system",
    "pickle.find_class",
    "pty.spawn",
    "socket.bind",
    "socket.connect",
    "subprocess.Popen",
)
CHANGES = ("os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PACKAGES = frozenset(
    {
        *sys.stdlib_module_names,
        "briskrl",
        "gymnasium",
        "llvmlite",
        "matplotlib",
        "msgspec",
        "numba",
        "numpy",
        "safetensors",
        "tests",
        "torch",
        "yaml",
    }
)
"""Modules that the package itself imports, wherever it needs them first."""


class ViolationError(Exception):
    """Something forbidden happened; not an error that a reader could handle."""


class Guard:
    """An audit hook that records violations while it is entered."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.path.realpath(folder)
        self._violation: str | None = None
        self._active = False
        sys.addaudithook(self._hook)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the block.

        Raises:
            ViolationError: The block did something forbidden, whatever it made of the consequences.
        """
        self._violation, self._active = None, True
        try:
            yield
        finally:
            self._active = False
        if self._violation is not None:
            raise ViolationError(self._violation)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self._active and self._violates(event, args):
            self._violation = f"{event} {args}"[:500]

    def _violates(self, event: str, args: tuple[Any, ...]) -> bool:
        if event == "import":
            return str(args[0]).partition(".")[0] not in PACKAGES
        if event == "open":
            path, _, flags = args
            writes = isinstance(flags, int) and flags & WRITING
            return bool(writes) and not self._is_inside(path)
        if event in CHANGES:
            return not self._is_inside(args[0])
        return event in FORBIDDEN

    def _is_inside(self, path: Any) -> bool:
        if isinstance(path, int):
            # A descriptor: opening it was watched.
            return True
        return os.path.realpath(os.fsdecode(path)).startswith(self._folder)
