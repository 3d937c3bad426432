"""A disk that loses writes: records file operations, and builds what a power cut may leave of them.

Only what was synced is sure to survive. Of everything else any part may be lost: data of files, of
which a write may also arrive as a prefix or as zeros, and entries of folders. Operations on one
folder or file that do survive are applied in order, and a rename is atomic.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock


@dataclass(eq=False)
class Folder:
    entries: dict[str, Node] = field(default_factory=dict)


@dataclass(eq=False)
class Content:
    data: bytearray = field(default_factory=bytearray)


Node = Folder | Content


@dataclass(frozen=True)
class Entries:
    """Entries of one folder that change at once; None removes one."""

    node: Folder
    changes: dict[str, Node | None]


@dataclass(frozen=True)
class Write:
    node: Content
    place: int
    data: bytes


@dataclass(frozen=True)
class Resize:
    node: Content
    size: int


@dataclass(frozen=True)
class Sync:
    node: Node


@dataclass(frozen=True)
class Mark:
    """Not an operation: a moment that a test wants to find again."""

    value: int


Operation = Entries | Write | Resize | Sync | Mark


@dataclass
class _Open:
    node: Node
    appends: bool
    place: int = 0


class RecordedDisk:
    """The operations below one empty folder, in order."""

    def __init__(self, root: Path) -> None:
        self.path = Path(os.path.abspath(root))
        self.root = Folder()
        self.operations: list[Operation] = []
        self._open: dict[int, _Open] = {}

    def mark(self, value: int) -> None:
        self.operations.append(Mark(value))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record every operation that goes through the `os` module."""
        names = {
            "open": self._on_open,
            "write": self._on_write,
            "close": self._on_close,
            "fsync": self._on_fsync,
            "ftruncate": self._on_ftruncate,
            "mkdir": self._on_mkdir,
            "rename": self._on_rename,
            "replace": self._on_rename,
            "link": self._on_link,
            "unlink": self._on_unlink,
            "remove": self._on_unlink,
            "rmdir": self._on_unlink,
        }
        real = {name: getattr(os, name) for name in names}
        wrapped = {name: self._wrap(real[name], after) for name, after in names.items()}
        # A power cut does not come, so there is no need to wait for the real disk.
        wrapped["fsync"] = self._wrap(lambda descriptor: None, self._on_fsync)
        with mock.patch.multiple(os, **wrapped):
            yield

    def _wrap(self, real: Callable[..., Any], after: Callable[..., None]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            result = real(*args, **options)
            after(result, *args, **options)
            return result

        return call

    def _find(self, path: Any, folder: int | None = None) -> tuple[Folder, str] | None:
        """The folder that holds a path, and the name in it; None for paths elsewhere."""
        if folder is not None:
            opened = self._open.get(folder)
            return (opened.node, os.fspath(path)) if opened else None  # type: ignore[return-value]
        whole = Path(os.path.abspath(path))
        if not whole.is_relative_to(self.path) or whole == self.path:
            return None
        node: Node = self.root
        for name in whole.relative_to(self.path).parts[:-1]:
            assert isinstance(node, Folder)
            node = node.entries[name]
        assert isinstance(node, Folder)
        return node, whole.name

    def _change(self, folder: Folder, changes: dict[str, Node | None]) -> None:
        self.operations.append(Entries(folder, changes))
        _apply_entries(folder.entries, changes)

    def _on_open(self, fd: int, path: Any, flags: int, *_: Any, **options: Any) -> None:
        if Path(os.path.abspath(path)) == self.path:
            self._open[fd] = _Open(self.root, appends=False)
            return
        place = self._find(path, options.get("dir_fd"))
        if place is None:
            return
        folder, name = place
        if name not in folder.entries:
            assert flags & os.O_CREAT
            self._change(folder, {name: Content()})
        node = folder.entries[name]
        if flags & os.O_TRUNC:
            assert isinstance(node, Content)
            self.operations.append(Resize(node, 0))
            node.data.clear()
        self._open[fd] = _Open(node, appends=bool(flags & os.O_APPEND))

    def _on_write(self, number: int, fd: int, data: Any) -> None:
        if fd not in self._open:
            return
        opened = self._open[fd]
        node = opened.node
        assert isinstance(node, Content)
        place = len(node.data) if opened.appends else opened.place
        operation = Write(node, place, bytes(data)[:number])
        self.operations.append(operation)
        _apply_write(node.data, place, operation.data)
        opened.place = place + number

    def _on_close(self, _: None, fd: int) -> None:
        self._open.pop(fd, None)

    def _on_fsync(self, _: None, fd: int) -> None:
        if fd in self._open:
            self.operations.append(Sync(self._open[fd].node))

    def _on_ftruncate(self, _: None, fd: int, size: int) -> None:
        if fd in self._open:
            node = self._open[fd].node
            assert isinstance(node, Content)
            self.operations.append(Resize(node, size))
            _resize(node.data, size)

    def _on_mkdir(self, _: None, path: Any, *__: Any, **options: Any) -> None:
        place = self._find(path, options.get("dir_fd"))
        if place is not None:
            self._change(place[0], {place[1]: Folder()})

    def _on_rename(self, _: None, source: Any, target: Any) -> None:
        old, new = self._find(source), self._find(target)
        if old is None or new is None:
            assert old is new, "renamed across the border of the recorded folder"
            return
        assert old[0] is new[0], "renames between folders are not modeled"
        self._change(old[0], {old[1]: None, new[1]: old[0].entries[old[1]]})

    def _on_link(self, _: None, source: Any, target: Any, **__: Any) -> None:
        old, new = self._find(source), self._find(target)
        if old is not None and new is not None:
            self._change(new[0], {new[1]: old[0].entries[old[1]]})

    def _on_unlink(self, _: None, path: Any, **options: Any) -> None:
        place = self._find(path, options.get("dir_fd"))
        if place is not None:
            self._change(place[0], {place[1]: None})

    def after_power_cut(self, target: Path, moment: int, rng: random.Random) -> None:
        """Build in `target` what may be left if the power fails before the operation `moment`."""
        survival = rng.choice([0.0, 0.3, 0.7, 1.0])
        entries: dict[Folder, dict[str, Node]] = {}
        data: dict[Content, bytearray] = {}
        pending: dict[Node, list[Operation]] = {}
        for operation in self.operations[:moment]:
            if isinstance(operation, Sync):
                for earlier in pending.pop(operation.node, []):
                    _apply(earlier, entries, data)
            elif not isinstance(operation, Mark):
                pending.setdefault(operation.node, []).append(operation)
        for operations in pending.values():
            for operation in operations:
                if rng.random() < survival:
                    _apply(_damaged(operation, rng, survival), entries, data)
        _build(target, self.root, entries, data)

    def whole(self, target: Path) -> None:
        """Build in `target` what all operations together give."""
        entries: dict[Folder, dict[str, Node]] = {}
        data: dict[Content, bytearray] = {}
        for operation in self.operations:
            if not isinstance(operation, Sync | Mark):
                _apply(operation, entries, data)
        _build(target, self.root, entries, data)


def _damaged(operation: Operation, rng: random.Random, survival: float) -> Operation:
    """The operation, or a write of which only a part arrives."""
    if not isinstance(operation, Write) or survival == 1.0:
        return operation
    kind = rng.choice(["whole", "prefix", "zeros"])
    if kind == "prefix":
        return Write(
            operation.node, operation.place, operation.data[: rng.randrange(len(operation.data))]
        )
    zeros = bytes(len(operation.data))
    return operation if kind == "whole" else Write(operation.node, operation.place, zeros)


def _apply(
    operation: Operation, entries: dict[Folder, dict[str, Node]], data: dict[Content, bytearray]
) -> None:
    if isinstance(operation, Entries):
        _apply_entries(entries.setdefault(operation.node, {}), operation.changes)
    elif isinstance(operation, Write):
        _apply_write(data.setdefault(operation.node, bytearray()), operation.place, operation.data)
    elif isinstance(operation, Resize):
        _resize(data.setdefault(operation.node, bytearray()), operation.size)


def _apply_entries(entries: dict[str, Node], changes: dict[str, Node | None]) -> None:
    for name, node in changes.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def _apply_write(data: bytearray, place: int, block: bytes) -> None:
    _resize(data, max(len(data), place + len(block)))
    data[place : place + len(block)] = block


def _resize(data: bytearray, size: int) -> None:
    del data[size:]
    data.extend(bytes(size - len(data)))


def _build(
    target: Path,
    folder: Folder,
    entries: dict[Folder, dict[str, Node]],
    data: dict[Content, bytearray],
) -> None:
    target.mkdir()
    for name, node in entries.get(folder, {}).items():
        if isinstance(node, Folder):
            _build(target / name, node, entries, data)
        else:
            (target / name).write_bytes(data.get(node, b""))
