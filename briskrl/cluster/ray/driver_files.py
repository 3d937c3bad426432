"""The files of the driver, as workers elsewhere use them through a relay."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from briskrl.cluster.ray.relay import Method, StoreAnswer, StoreCall
from briskrl.cluster.storage import FolderStore
from briskrl.core.errors import BriskError
from briskrl.training.storage.atomic_files import (
    TEMPORARY,
    make_folder,
    storage_errors,
    sync_folder,
)


class DriverFiles:
    """Does what workers ask for, in the folder of the executor.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        store = FolderStore(root)
        self._methods: dict[Method, Callable[..., Any]] = {
            "write": self.write,
            "write_log": self.write_log,
            "size": self.size,
            "read": self.read,
            "copy": store.copy,
            "list": store.list,
            "remove": store.remove,
        }

    def answer(self, call: StoreCall) -> StoreAnswer:
        """Do it; an error is part of the answer."""
        try:
            return StoreAnswer(self._methods[call.method](*call.arguments))
        except BriskError as error:
            return StoreAnswer(error=str(error))

    def write(self, target: str, start: int, piece: bytes, last: bool) -> None:
        """Write a piece of a new file, which gets its name after the last one."""
        path = self._root / target
        # The same name every time, so that an interrupted attempt leaves one file at most.
        temporary = path.with_name(f"{TEMPORARY}{path.name}-sent")
        with storage_errors(f"write {path}"):
            make_folder(path.parent)
            with temporary.open("r+b" if start else "wb") as file:
                file.seek(start)
                file.write(piece)
                if last:
                    file.flush()
                    os.fsync(file.fileno())
            if last:
                os.replace(temporary, path)
                sync_folder(path.parent)

    def write_log(self, target: str, start: int, piece: bytes, last: bool) -> None:
        """Write a piece of a log in place; the last one cuts what is behind it."""
        path = self._root / target
        with storage_errors(f"write {path}"):
            make_folder(path.parent)
            with path.open("r+b" if path.exists() else "xb") as file:
                file.seek(start)
                file.write(piece)
                if last:
                    file.truncate()
                    file.flush()
                    os.fsync(file.fileno())

    def size(self, path: str) -> int:
        """Bytes of a file; 0 if there is none."""
        found = self._root / path
        with storage_errors(f"read {found}"):
            return found.stat().st_size if found.is_file() else 0

    def read(self, path: str, start: int, count: int) -> bytes | None:
        """Bytes of a file from `start` on; None if there is none."""
        found = self._root / path
        with storage_errors(f"read {found}"):
            if not found.is_file():
                return None
            with found.open("rb") as file:
                file.seek(start)
                return file.read(count)
