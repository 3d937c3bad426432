"""Files travel whole between a worker and the driver, whatever their size."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from briskrl.cluster.ray.driver_files import DriverFiles
from briskrl.cluster.ray.relay import READ_BYTES, WRITE_BYTES, Relay, RelayStore
from briskrl.core.errors import StorageError

SIZES = [
    0,
    1,
    *(n + more for n in (WRITE_BYTES, READ_BYTES) for more in (-1, 0, 1)),
    2 * READ_BYTES,
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "driver"


@pytest.fixture
def store(root: Path) -> Iterator[RelayStore]:
    # A short path: those of Unix sockets are limited.
    with TemporaryDirectory(prefix="relay-") as folder:
        relay = Relay(Path(folder, "socket"), DriverFiles(root).answer)
        yield relay.store
        relay.close()


@pytest.mark.parametrize("size", SIZES)
def test_files_arrive_whole_in_both_directions(
    store: RelayStore, root: Path, tmp_path: Path, size: int
):
    content = os.urandom(size)
    (tmp_path / "source").write_bytes(content)
    store.upload(tmp_path / "source", "job/a/file")
    assert (root / "job" / "a" / "file").read_bytes() == content
    assert store.download("job/a/file", tmp_path / "back" / "file")
    assert (tmp_path / "back" / "file").read_bytes() == content
    assert store.list("job/a") == ["file"]


def test_a_file_is_replaced_by_the_new_one(store: RelayStore, root: Path, tmp_path: Path):
    for content in (b"a long first one", b"short"):
        (tmp_path / "source").write_bytes(content)
        store.upload(tmp_path / "source", "job/file")
    assert (root / "job" / "file").read_bytes() == b"short"


def test_an_interrupted_file_leaves_the_old_one(store: RelayStore, root: Path, tmp_path: Path):
    (tmp_path / "source").write_bytes(b"old")
    store.upload(tmp_path / "source", "job/file")
    DriverFiles(root).write("job/file", 0, b"a piece", False)
    assert (root / "job" / "file").read_bytes() == b"old"
    assert store.list("job") == ["file"]
    store.upload(tmp_path / "source", "job/file")
    assert [path.name for path in (root / "job").iterdir()] == ["file"]


def test_logs_grow_and_are_cut_in_place(store: RelayStore, root: Path, tmp_path: Path):
    source, target = tmp_path / "log", root / "job" / "log"
    rows = os.urandom(2 * WRITE_BYTES + 100)
    source.write_bytes(rows)
    store.upload_log(source, "job/log", 0)
    source.write_bytes(rows + b"more")
    store.upload_log(source, "job/log", len(rows))
    assert target.read_bytes() == rows + b"more"
    source.write_bytes(rows[:50] + b"other")
    store.upload_log(source, "job/log", 0)
    assert target.read_bytes() == rows[:50] + b"other"


def test_a_log_that_the_driver_has_lost_is_sent_whole(
    store: RelayStore, root: Path, tmp_path: Path
):
    (tmp_path / "log").write_bytes(b"rows and more rows")
    store.upload_log(tmp_path / "log", "job/log", 8)
    assert (root / "job" / "log").read_bytes() == b"rows and more rows"


def test_copies_and_removals_happen_at_the_driver(store: RelayStore, root: Path, tmp_path: Path):
    (tmp_path / "source").write_bytes(b"content")
    store.upload(tmp_path / "source", "job/old/file")
    assert store.copy("job/old/file", "job/new/file")
    assert not store.copy("job/old/missing", "job/new/missing")
    store.remove("job/old")
    store.remove("job/missing")
    assert store.list("job") == ["new/"]
    assert store.list("missing") == []
    assert (root / "job" / "new" / "file").read_bytes() == b"content"
    assert not store.download("job/old/file", tmp_path / "back")


def test_errors_of_the_driver_and_its_absence_are_storage_errors(
    store: RelayStore, root: Path, tmp_path: Path
):
    (tmp_path / "source").write_bytes(b"content")
    root.mkdir()
    (root / "job").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match="job"):
        store.upload(tmp_path / "source", "job/file")
    with pytest.raises(StorageError, match="cannot be reached"):
        RelayStore(str(tmp_path / "nothing")).list("job")


def test_a_closed_relay_leaves_no_thread_and_no_socket(root: Path):
    before = threading.active_count()
    with TemporaryDirectory(prefix="relay-") as folder:
        relay = Relay(Path(folder, "socket"), DriverFiles(root).answer)
        assert relay.store.list("job") == []
        assert threading.active_count() == before + 1
        relay.close()
        assert threading.active_count() == before
        with pytest.raises(StorageError, match="cannot be reached"):
            relay.store.list("job")
