"""Every store keeps what is given to it, replaces files as a whole, and reports its errors."""

from __future__ import annotations

import pickle
from pathlib import Path
from uuid import uuid4

import pytest

from briskrl.cluster.storage import FolderStore, Store, UrlStore, is_url, open_store, try_again
from briskrl.core.errors import ConfigError, StorageError
from briskrl.training.storage.atomic_files import TEMPORARY


@pytest.fixture(params=["folder", "memory", "file"])
def store(request, tmp_path: Path) -> Store:
    if request.param == "folder":
        return FolderStore(tmp_path / "store")
    url = f"memory://{uuid4().hex}" if request.param == "memory" else f"file://{tmp_path}/store"
    found = open_store(url)
    assert isinstance(found, UrlStore)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(b"first line\n")
    return path


def content(store: Store, path: str, tmp_path: Path) -> bytes | None:
    """The content of a file in a store."""
    target = tmp_path / "fetched" / uuid4().hex
    return target.read_bytes() if store.download(path, target) else None


def test_a_file_is_kept_and_can_be_replaced(store: Store, file: Path, tmp_path: Path):
    store.upload(file, "a/b/file")
    assert content(store, "a/b/file", tmp_path) == b"first line\n"
    file.write_bytes(b"other")
    store.upload(file, "a/b/file")
    assert content(store, "a/b/file", tmp_path) == b"other"
    assert store.list("a/b") == ["file"]


def test_what_is_missing_is_reported_as_missing(store: Store, tmp_path: Path):
    assert content(store, "missing", tmp_path) is None
    assert store.list("missing") == []
    store.remove("missing")
    assert not store.copy("missing", "copy")


@pytest.mark.parametrize("start", [0, 5, 11, 500])
def test_a_log_grows(store: Store, file: Path, tmp_path: Path, start: int):
    store.upload_log(file, "log", 0)
    file.write_bytes(b"first line\nsecond line\n")
    store.upload_log(file, "log", start)
    assert content(store, "log", tmp_path) == b"first line\nsecond line\n"


def test_a_log_that_has_become_shorter_is_cut(store: Store, file: Path, tmp_path: Path):
    store.upload_log(file, "log", 0)
    file.write_bytes(b"first\n")
    store.upload_log(file, "log", 0)
    assert content(store, "log", tmp_path) == b"first\n"


def test_a_copy_is_independent_of_its_source(store: Store, file: Path, tmp_path: Path):
    store.upload(file, "old/chunk")
    assert store.copy("old/chunk", "new/memory/chunk")
    file.write_bytes(b"other")
    store.upload(file, "old/chunk")
    assert content(store, "new/memory/chunk", tmp_path) == b"first line\n"
    store.remove("old")
    assert content(store, "new/memory/chunk", tmp_path) == b"first line\n"


def test_folders_are_listed_with_a_slash_and_unfinished_files_are_not(store: Store, file: Path):
    for path in ("a/file", "a/folder/file", f"a/{TEMPORARY}file"):
        store.upload(file, path)
    assert store.list("a") == ["file", "folder/"]


def test_a_folder_is_removed_with_everything_below_it(store: Store, file: Path):
    for path in ("a/file", "a/folder/file", "b/file"):
        store.upload(file, path)
    store.remove("a")
    assert store.list("a") == []
    assert store.list("") == ["b/"]
    store.remove("b/file")
    assert store.list("b") == []


def test_a_store_can_be_sent_to_workers(store: Store, file: Path, tmp_path: Path):
    store.upload(file, "file")
    assert content(pickle.loads(pickle.dumps(store)), "file", tmp_path) == b"first line\n"


def test_a_source_that_is_gone_is_a_storage_error_and_changes_nothing(
    store: Store, file: Path, tmp_path: Path
):
    store.upload(file, "a/file")
    file.unlink()
    with pytest.raises(StorageError, match="a/file"):
        store.upload(file, "a/file")
    assert content(store, "a/file", tmp_path) == b"first line\n"
    assert store.list("a") == ["file"]


@pytest.mark.parametrize("url", [False, True])
def test_a_place_that_cannot_be_written_is_a_storage_error(tmp_path: Path, file: Path, url: bool):
    (tmp_path / "no-folder").write_text("")
    place = f"{tmp_path}/no-folder/store"
    store = open_store(f"file://{place}" if url else place)
    with pytest.raises(StorageError, match="no-folder"):
        store.upload(file, "a/file")


def test_urls_and_paths_are_distinguished_by_their_form(tmp_path: Path):
    assert [is_url(place) for place in ("s3://bucket", "file:///a", "/a", "a:b", "C:/x")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert open_store(str(tmp_path)) == FolderStore(tmp_path)


def test_a_package_that_is_missing_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="dropbox://bucket"):
        open_store("dropbox://bucket")


def test_a_failing_store_is_tried_again_until_it_works(monkeypatch):
    monkeypatch.setattr("briskrl.cluster.storage._PAUSES_S", (0.001, 0.001, 0.001))
    calls = []

    def fails_until(last: int) -> None:
        calls.append(last)
        if len(calls) < last:
            raise StorageError("no connection")

    try_again(lambda: fails_until(4))
    assert len(calls) == 4
    calls.clear()
    with pytest.raises(StorageError, match="no connection"):
        try_again(lambda: fails_until(9))
    assert len(calls) == 4
