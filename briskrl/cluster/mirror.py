"""Keeps a copy of a job's folder in a store, so that another machine can continue the job.

A machine may be lost while it copies a checkpoint. So the files of a checkpoint come first, then
its manifest, and then the file LATEST, which names it; the logs that it refers to come before all
of them. The manifest is the first file to be removed. Whatever is interrupted, a checkpoint with a
manifest in the store is whole, LATEST names one of them, and the logs there have the rows that it
needs. Chunks of a memory that have not changed are copied within the store.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from logging import getLogger
from pathlib import Path
from tempfile import TemporaryDirectory

from briskrl.cluster.storage import Store
from briskrl.training.storage.atomic_files import (
    TEMPORARY,
    FileRecord,
    make_folder,
    storage_errors,
)
from briskrl.training.storage.checkpoint import LATEST, list_checkpoints, newest_first
from briskrl.training.storage.manifest import FILE_NAME, DamagedError, Manifest, read_manifest
from briskrl.training.storage.run_dir import LOG_FILES

JOB_LOG = "job.log"
"""What the process of a job prints, of all attempts."""
CHECKPOINTS = "checkpoints"
_LOGS = (*LOG_FILES, JOB_LOG)
_LAST = ("policy", "result.json")
"""What is copied after the checkpoints that it belongs to."""
_NEVER = ("lock",)
_log = getLogger(__name__)


class Mirror:
    """The folder of one job, and its copy in a store.

    Args:
        store: Where the copy is.
        name: Name of the job, and its path in the store.
        folder: The job's folder on this machine.
        alive: Called after every file that is copied.
    """

    def __init__(
        self, store: Store, name: str, folder: Path, alive: Callable[[], None] = lambda: None
    ) -> None:
        self._store = store
        self._name = name
        self._folder = folder
        self._alive = alive
        self._copied: dict[str, tuple[int, int]] = {}
        """Size and time of change of the files in the store, as far as they are known."""
        self._manifests: dict[str, Manifest] = {}
        """Whole checkpoints in the store, oldest first."""
        self._latest = ""
        """What LATEST in the store names, as far as it is known."""

    def restore(self) -> None:
        """Make the folder equal to the copy, unless it continues the copy, or there is no copy.

        Raises:
            StorageError: The store or the folder cannot be used.
        """
        stored = self._stored_checkpoints()
        if self._continues(stored):
            return
        new, old = (
            self._folder.with_name(f"{TEMPORARY}{age}-{self._folder.name}")
            for age in ("new", "old")
        )
        with storage_errors(f"write {self._folder}"):
            make_folder(new.parent)
            for left_over in (new, old):
                shutil.rmtree(left_over, ignore_errors=True)
            self._fetch_records(new)
            for name in stored:
                for path in self._list(f"{CHECKPOINTS}/{name}/"):
                    self._download(path, new)
            if stored:
                self._download(f"{CHECKPOINTS}/{LATEST}", new)
            # Under its name when it is complete: a part of a checkpoint would count as damage.
            if self._folder.exists():
                os.rename(self._folder, old)
            os.rename(new, self._folder)
            shutil.rmtree(old, ignore_errors=True)

    def _continues(self, stored: list[str]) -> bool:
        """Whether the folder has the newest checkpoint of the store, and perhaps later ones.

        A checkpoint of the same step is another one if its run has been resumed at another step:
        it refers to other positions in the logs, because rows of the metrics depend on the time.
        """
        if not _has_content(self._folder):
            return not self._store.list(self._name)
        return not stored or self._holds(self._folder / CHECKPOINTS / stored[0])

    def fetch_records(self) -> None:
        """Copy everything but checkpoints from the store to the folder.

        Raises:
            StorageError: The store or the folder cannot be used.
        """
        with storage_errors(f"write {self._folder}"):
            self._fetch_records(self._folder)

    def _fetch_records(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in self._list(""):
            self._download(path, folder)

    def publish(self) -> None:
        """Copy what has changed since the last time.

        Raises:
            StorageError: It could not be copied; the copy can be continued from as before.
        """
        with storage_errors(f"copy {self._folder}"):
            files = list(_list_files(self._folder))
            last = [path for path in files if path.parts[0] in _LAST]
            for path in files:
                if path not in last:
                    self._upload(path.as_posix())
            self._publish_checkpoints()
            for path in last:
                self._upload(path.as_posix())

    def publish_log(self) -> None:
        """Copy what the job's process has printed; a failure is only logged.

        For the end of an attempt, whose outcome should not depend on it.
        """
        try:
            if (self._folder / JOB_LOG).exists():
                self._upload(JOB_LOG)
        except Exception as error:
            _log.warning("the log is not copied: %s", error)

    def _publish_checkpoints(self) -> None:
        paths = list_checkpoints(self._folder / CHECKPOINTS)
        if not paths:
            return
        if not self._manifests:
            self._find_manifests()
        for path in reversed(paths):
            if path.name not in self._manifests:
                self._upload_checkpoint(path)
        kept = [path.name for path in paths if path.name in self._manifests]
        if not kept:
            return
        if kept[0] != self._latest:
            # Not the file LATEST itself, which may name a damaged one.
            self._upload_text(f"{CHECKPOINTS}/{LATEST}", kept[0] + "\n")
            self._latest = kept[0]
        for name in self._stored_folders():
            if name not in kept:
                self._remove_checkpoint(name)

    def _find_manifests(self) -> None:
        """Find the checkpoints of the folder that the store has already."""
        stored = self._stored_checkpoints()
        for path in reversed(list_checkpoints(self._folder / CHECKPOINTS)):
            if path.name in stored and self._holds(path):
                self._manifests[path.name] = read_manifest(path)

    def _holds(self, path: Path) -> bool:
        """Whether the store and the folder have the same checkpoint of this name."""
        own = path / FILE_NAME
        if not own.is_file():
            return False
        with TemporaryDirectory(prefix="briskrl-manifest-") as scratch:
            copy = Path(scratch, FILE_NAME)
            source = self._target(f"{CHECKPOINTS}/{path.name}/{FILE_NAME}")
            return self._store.download(source, copy) and copy.read_bytes() == own.read_bytes()

    def _upload_checkpoint(self, path: Path) -> None:
        try:
            manifest = read_manifest(path)
        except DamagedError as damage:
            _log.warning("the checkpoint %s is not copied: %s", path.name, damage)
            return
        target = f"{CHECKPOINTS}/{path.name}"
        # What an interrupted attempt has left.
        self._remove_checkpoint(path.name)
        for name, record in manifest.files.items():
            same = self._find(name, record)
            if same is None or not self._store.copy(same, self._target(f"{target}/{name}")):
                self._store.upload(path / name, self._target(f"{target}/{name}"))
            self._alive()
        self._store.upload(path / FILE_NAME, self._target(f"{target}/{FILE_NAME}"))
        self._manifests[path.name] = manifest

    def _remove_checkpoint(self, name: str) -> None:
        self._manifests.pop(name, None)
        target = self._target(f"{CHECKPOINTS}/{name}")
        self._store.remove(f"{target}/{FILE_NAME}")
        self._store.remove(target)

    def _find(self, name: str, record: FileRecord) -> str | None:
        """The same file in the oldest checkpoint of the store that has it."""
        for checkpoint, manifest in self._manifests.items():
            if manifest.files.get(name) == record:
                return self._target(f"{CHECKPOINTS}/{checkpoint}/{name}")
        return None

    def _stored_checkpoints(self) -> list[str]:
        """Names of the whole checkpoints in the store, newest first."""
        return [
            name
            for name in self._stored_folders()
            if FILE_NAME in self._store.list(self._target(f"{CHECKPOINTS}/{name}"))
        ]

    def _stored_folders(self) -> list[str]:
        """Names of the folders of checkpoints in the store, newest first."""
        found = self._store.list(self._target(CHECKPOINTS))
        return newest_first(name.rstrip("/") for name in found if name.endswith("/"))

    def _upload(self, path: str) -> None:
        """Copy a file if it has changed."""
        source = self._folder / path
        found = source.stat()
        now, before = (found.st_size, found.st_mtime_ns), self._copied.get(path)
        if now == before:
            return
        if path in _LOGS:
            # Rows that were copied before stay, unless the run has gone back to a checkpoint.
            grown = before is not None and before[0] <= now[0]
            start = before[0] if before is not None and grown else 0
            self._store.upload_log(source, self._target(path), start)
        else:
            self._store.upload(source, self._target(path))
        self._copied[path] = now
        self._alive()

    def _upload_text(self, path: str, text: str) -> None:
        with TemporaryDirectory(prefix="briskrl-text-") as scratch:
            file = Path(scratch, "text")
            file.write_text(text)
            self._store.upload(file, self._target(path))

    def _download(self, path: str, folder: Path) -> None:
        self._store.download(self._target(path), folder / path)
        self._alive()

    def _list(self, below: str) -> Iterator[str]:
        """All files in the store below a path that ends in a slash, or is empty."""
        for name in self._store.list(self._target(below).rstrip("/")):
            if not name.endswith("/"):
                yield below + name
            elif below + name != f"{CHECKPOINTS}/":
                yield from self._list(below + name)

    def _target(self, path: str) -> str:
        return f"{self._name}/{path}"


def _has_content(folder: Path) -> bool:
    """Whether a job has written something to its folder."""
    return folder.is_dir() and any(entry.name != JOB_LOG for entry in folder.iterdir())


def _list_files(folder: Path, below: Path = Path()) -> Iterator[Path]:
    """Relative paths of the files to copy, without checkpoints and unfinished files."""
    for entry in sorted((folder / below).iterdir()):
        path = below / entry.name
        if entry.name.startswith(TEMPORARY) or entry.is_symlink() or entry.name in _NEVER:
            continue
        if not entry.is_dir():
            yield path
        elif path != Path(CHECKPOINTS):
            yield from _list_files(folder, path)
