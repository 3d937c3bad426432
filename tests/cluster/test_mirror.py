"""Copies of job folders: whatever is interrupted, a run continues from them to the same bits."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from briskrl.cluster.mirror import Mirror
from briskrl.cluster.run_reports import PublishHook
from briskrl.cluster.storage import FolderStore, Store, open_store
from briskrl.core.errors import StorageError
from briskrl.memory import chunks
from briskrl.training.config import TrainConfig
from briskrl.training.loop import resume, train
from briskrl.training.storage.checkpoint import LATEST, list_checkpoints, read_newest
from briskrl.training.storage.manifest import read_manifest
from briskrl.training.storage.run_dir import LOG_FILES
from tests.cluster.faulty_store import FaultyStore, Killed
from tests.training.runs import fused_config, policy_hash

NAME = "sweep/run"
EVERY, CHUNK_BYTES = 800, 1 << 14
"""Steps between checkpoints, and chunks so small that only some change in between."""


class Stages:
    """A run, and copies of its folder at every checkpoint."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run = root / "run"
        self.count = 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chunks, "MIN_BYTES", CHUNK_BYTES)
            train(config_of(self.run), hooks=[PublishHook(self.keep)])
        self.hash = policy_hash(self.run)

    def keep(self) -> None:
        shutil.copytree(self.run, self.folder(self.count), copy_function=shutil.copy2)
        self.count += 1

    def folder(self, number: int) -> Path:
        return self.root / f"stage-{number}"


def config_of(run: Path, **options: Any) -> TrainConfig:
    large = {"algo_config": {"buffer_size": 4000}}
    return fused_config(run, checkpoint_steps=EVERY, log_seconds=0.01, **large, **options)


@pytest.fixture(scope="module")
def stages(tmp_path_factory) -> Stages:
    found = Stages(tmp_path_factory.mktemp("stages"))
    assert found.count == 3
    return found


def publish_all(stages: Stages, store: Store, folder: Path) -> None:
    """Publish every stage in turn, as a run does; `folder` is the folder of the run."""
    mirror = Mirror(store, NAME, folder)
    for number in range(stages.count):
        show(stages, folder, number)
        mirror.publish()


def test_a_restored_copy_continues_to_the_same_bits(stages: Stages, tmp_path: Path):
    store = FolderStore(tmp_path / "store")
    publish_all(stages, store, tmp_path / "here")
    there = tmp_path / "there"
    Mirror(store, NAME, there).restore()
    assert newest(there) == newest(tmp_path / "here")
    resume(there)
    assert policy_hash(there) == stages.hash


@pytest.mark.parametrize("url", ["memory://copies", "file://{}/copies"])
def test_a_url_is_as_good_as_a_folder(stages: Stages, tmp_path: Path, url: str):
    store = open_store(url.format(tmp_path))
    publish_all(stages, store, tmp_path / "here")
    there = tmp_path / "there"
    Mirror(store, NAME, there).restore()
    assert newest(there) == newest(tmp_path / "here")
    assert read_newest(there / "checkpoints").notes == ()
    assert len(store.list(f"{NAME}/checkpoints")) == 1 + len(
        list_checkpoints(there / "checkpoints")
    )
    store.remove(NAME)


def newest(folder: Path) -> str:
    return list_checkpoints(folder / "checkpoints")[0].name


def killed_publishes(stages: Stages, root: Path, here: Path, number: int) -> Iterator[Path]:
    """Stores in which publishing a stage was killed, at each of its calls in turn.

    The stage before it was published by the same process.
    """
    before = max(0, number - 1)
    show(stages, here, before)
    if number:
        Mirror(FolderStore(root / "before"), NAME, here).publish()
    for call in count(1):
        copy = root / str(call)
        if number:
            shutil.copytree(root / "before", copy)
        show(stages, here, before)
        store = FaultyStore(copy)
        mirror = Mirror(store, NAME, here)
        if number:
            mirror.publish()
        show(stages, here, number)
        store.kill_at = store.calls + call
        try:
            mirror.publish()
        except Killed:
            yield copy
        else:
            assert call > 20
            return


def show(stages: Stages, folder: Path, number: int) -> None:
    """Make the folder of a run what it was at a stage."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(stages.folder(number), folder)


@pytest.mark.parametrize("number", range(3))
def test_a_publish_killed_at_any_call_leaves_a_copy_that_is_whole(
    stages: Stages, tmp_path: Path, number: int
):
    here = tmp_path / "here"
    seen: dict[str, Path] = {}
    for copy in killed_publishes(stages, tmp_path / "stores", here, number):
        restored = tmp_path / "restored" / copy.name
        check_copy(copy / NAME, FolderStore(copy), restored)
        if list_checkpoints(restored / "checkpoints"):
            seen.setdefault(newest(restored), restored)
    expected = {newest(stages.folder(n)) for n in (number - 1, number) if n >= 0}
    assert seen.keys() == expected
    for folder in seen.values():
        resume(folder)
        assert policy_hash(folder) == stages.hash


def test_a_killed_publish_is_completed_by_the_next_attempt(stages: Stages, tmp_path: Path):
    here = tmp_path / "here"
    for copy in killed_publishes(stages, tmp_path / "stores", here, 2):
        Mirror(FolderStore(copy), NAME, here).publish()
        assert (copy / NAME / "checkpoints" / LATEST).read_text().strip() == newest(here)
        folders = [path for path in (copy / NAME / "checkpoints").iterdir() if path.is_dir()]
        assert sorted(path.name for path in folders) == sorted(
            path.name for path in list_checkpoints(here / "checkpoints")
        )
        for path in folders:
            read_manifest(path).verify(path)


def check_copy(copy: Path, store: Store, restored: Path) -> None:
    """Check that the copy can be restored, and has what the newest checkpoint refers to."""
    latest = copy / "checkpoints" / LATEST
    if latest.exists():
        named = copy / "checkpoints" / latest.read_text().strip()
        read_manifest(named).verify(named)
    Mirror(store, NAME, restored).restore()
    if not list_checkpoints(restored / "checkpoints"):
        assert not latest.exists()
        return
    for path in list_checkpoints(restored / "checkpoints"):
        read_manifest(path).verify(path)
    saved = read_newest(restored / "checkpoints")
    assert saved.notes == ()
    offsets = saved.states["logs"].scalars["offsets"]
    for name in LOG_FILES:
        assert (restored / name).stat().st_size >= offsets[name]


def test_unchanged_chunks_are_not_sent_again(stages: Stages, tmp_path: Path):
    store = FaultyStore(tmp_path / "store")
    mirror = Mirror(store, NAME, tmp_path / "here")
    for number in range(stages.count):
        show(stages, tmp_path / "here", number)
        store.sent.clear()
        store.copied.clear()
        mirror.publish()
    copied = {path for path in store.copied if "/memory/" in path}
    sent = {path for path in store.sent if "/memory/" in path}
    assert len(copied) > len(sent) > 0
    assert not [path for path in store.sent if path.endswith("config.toml")]


def test_another_process_finds_out_what_the_store_has(stages: Stages, tmp_path: Path):
    store = FaultyStore(tmp_path / "store")
    Mirror(store, NAME, stages.folder(2)).publish()
    store.sent.clear()
    Mirror(store, NAME, stages.folder(2)).publish()
    assert not [path for path in store.sent if "/step_" in path]


@pytest.mark.parametrize("every", [3, 7])
def test_a_store_that_fails_now_and_then_has_everything_at_last(
    stages: Stages, tmp_path: Path, every: int
):
    store = FaultyStore(tmp_path / "store", fail_every=every)
    mirror = Mirror(store, NAME, tmp_path / "here")
    failures = 0
    for number in range(stages.count):
        show(stages, tmp_path / "here", number)
        try:
            mirror.publish()
        except StorageError:
            failures += 1
            check_copy(tmp_path / "store" / NAME, store, tmp_path / f"restored-{number}")
    assert failures
    steady = Mirror(FolderStore(tmp_path / "store"), NAME, tmp_path / "here")
    steady.publish()
    Mirror(store, NAME, tmp_path / "there").restore()
    assert newest(tmp_path / "there") == newest(tmp_path / "here")
    assert read_newest(tmp_path / "there" / "checkpoints").notes == ()


def test_a_folder_that_continues_the_copy_is_left_alone(stages: Stages, tmp_path: Path):
    store = FolderStore(tmp_path / "store")
    Mirror(store, NAME, stages.folder(1)).publish()
    shutil.copytree(stages.folder(2), tmp_path / "here")
    Mirror(store, NAME, tmp_path / "here").restore()
    assert newest(tmp_path / "here") == newest(stages.folder(2))


def test_a_folder_that_is_behind_the_copy_is_replaced(stages: Stages, tmp_path: Path):
    store = FolderStore(tmp_path / "store")
    Mirror(store, NAME, stages.folder(2)).publish()
    shutil.copytree(stages.folder(1), tmp_path / "here")
    Mirror(store, NAME, tmp_path / "here").restore()
    assert newest(tmp_path / "here") == newest(stages.folder(2))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_folder_of_another_history_is_replaced(stages: Stages, tmp_path: Path):
    # Its newest checkpoint has a name that the store has, too, but refers to other logs.
    store = FolderStore(tmp_path / "store")
    Mirror(store, NAME, stages.folder(2)).publish()
    other = tmp_path / "here"
    train(config_of(other, steps=EVERY))
    newest_here = list_checkpoints(stages.folder(2) / "checkpoints")[0]
    shutil.rmtree(other / "checkpoints" / newest_here.name, ignore_errors=True)
    list_checkpoints(other / "checkpoints")[0].rename(other / "checkpoints" / newest_here.name)
    Mirror(store, NAME, other).restore()
    restored = other / "checkpoints" / newest_here.name
    assert read_manifest(restored) == read_manifest(newest_here)
    read_manifest(restored).verify(restored)


class Unplugged(FolderStore):
    """A store that is lost during a download."""

    left = 5

    def download(self, source: str, target: Path) -> bool:
        type(self).left -= 1
        if type(self).left < 0:
            raise Killed
        return super().download(source, target)


@pytest.mark.parametrize("downloads", range(0, 24, 3))
def test_a_restore_that_is_killed_begins_anew(stages: Stages, tmp_path: Path, downloads: int):
    Mirror(FolderStore(tmp_path / "store"), NAME, stages.folder(2)).publish()
    Unplugged.left = downloads
    with pytest.raises(Killed):
        Mirror(Unplugged(tmp_path / "store"), NAME, tmp_path / "here").restore()
    Mirror(FolderStore(tmp_path / "store"), NAME, tmp_path / "here").restore()
    assert newest(tmp_path / "here") == newest(stages.folder(2))
    assert read_newest(tmp_path / "here" / "checkpoints").notes == ()


def test_nothing_is_removed_from_the_store_if_all_checkpoints_here_are_damaged(
    stages: Stages, tmp_path: Path
):
    store = FolderStore(tmp_path / "store")
    Mirror(store, NAME, stages.folder(1)).publish()
    shutil.copytree(stages.folder(2), tmp_path / "here")
    for path in list_checkpoints(tmp_path / "here" / "checkpoints"):
        (path / "MANIFEST.json").write_text("damaged")
    Mirror(store, NAME, tmp_path / "here").publish()
    Mirror(store, NAME, tmp_path / "there").restore()
    assert newest(tmp_path / "there") == newest(stages.folder(1))


def test_links_locks_and_unfinished_files_are_not_copied(tmp_path: Path):
    here = tmp_path / "here"
    (here / "folder").mkdir(parents=True)
    for name in ("kept", "folder/kept", "lock", ".tmp-file"):
        (here / name).write_text("")
    (here / "link").symlink_to(tmp_path)
    store = FolderStore(tmp_path / "store")
    Mirror(store, NAME, here).publish()
    assert store.list(NAME) == ["folder/", "kept"]


def test_records_can_be_fetched_without_checkpoints(stages: Stages, tmp_path: Path):
    store = FolderStore(tmp_path / "store")
    Mirror(store, NAME, stages.folder(1)).publish()
    Mirror(store, NAME, tmp_path / "records").fetch_records()
    names = {path.name for path in (tmp_path / "records").iterdir()}
    assert {"config.toml", "metrics.jsonl", "policy"} <= names
    assert "checkpoints" not in names


def test_every_copied_file_is_a_sign_of_life(stages: Stages, tmp_path: Path):
    signs: list[None] = []
    store = FaultyStore(tmp_path / "store")
    Mirror(store, NAME, stages.folder(1), lambda: signs.append(None)).publish()
    assert len(signs) > 10
