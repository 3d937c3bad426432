"""What is written survives a power cut: content is on disk before the name that points to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from briskrl.training.storage.atomic_files import replace, write_new

Event = tuple[str, int]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Syncs and renames in order, each with the inode of what it is about."""
    seen: list[Event] = []
    sync, rename = os.fsync, os.replace

    def watched_sync(descriptor: int) -> None:
        seen.append(("sync", os.fstat(descriptor).st_ino))
        sync(descriptor)

    def watched_rename(source: Path, target: Path) -> None:
        seen.append(("rename", os.stat(source).st_ino))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(os, "replace", watched_rename)
    return seen


def test_a_new_file_is_on_disk_when_writing_returns(tmp_path: Path, events: list[Event]) -> None:
    write_new(tmp_path / "file", [b"some ", b"content"])
    assert (tmp_path / "file").read_bytes() == b"some content"
    assert ("sync", (tmp_path / "file").stat().st_ino) in events


def test_a_replaced_file_is_synced_renamed_and_its_folder_synced(
    tmp_path: Path, events: list[Event]
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    replace(tmp_path / "file", b"new")
    inode, folder = (tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino
    assert (tmp_path / "file").read_bytes() == b"new"
    order = [events.index(event) for event in (("sync", inode), ("rename", inode))]
    assert order == sorted(order)
    assert ("sync", folder) in events[order[1] :]
