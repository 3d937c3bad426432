"""Places to keep copies of the folders of jobs: a folder, or anything that fsspec can reach.

A store holds files under paths such as `a/b/config.toml`. A reader sees a file with its old content
or with its new content, never with half of it. Stores can be pickled, and are used by workers.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from briskrl.core.errors import BriskError, ConfigError, StorageError
from briskrl.training.storage.atomic_files import (
    TEMPORARY,
    make_folder,
    storage_errors,
    sync_folder,
)

_PAUSES_S = (1, 5, 15)
"""Between attempts to use a store; most failures of a network pass."""
_log = getLogger(__name__)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


class Store(Protocol):
    """Keeps files; every method raises a StorageError if the place cannot be used."""

    def upload(self, source: Path, target: str) -> None:
        """Create or replace a file."""
        ...

    def upload_log(self, source: Path, target: str, start: int) -> None:
        """Create or replace a file whose first `start` bytes are in the store already.

        If this is interrupted, the store has at least the bytes that old and new content share at
        the beginning.
        """
        ...

    def download(self, source: str, target: Path) -> bool:
        """Write a file of the store to a new file; returns whether there is one."""
        ...

    def copy(self, source: str, target: str) -> bool:
        """Create a file with the content of another one, without sending it; whether it worked."""
        ...

    def list(self, path: str) -> list[str]:
        """Names of what is directly below a path; folders end in a slash. Empty if it is not there.

        Files that are being written are left out.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything below it; no effect if it is not there.

        If this is interrupted, some of the files are left.
        """
        ...


def try_again(action: Callable[[], None]) -> None:
    """Do something with a store; if that fails, try a few times more.

    Raises:
        StorageError: None of the attempts worked.
    """
    for pause_s in _PAUSES_S:
        try:
            return action()
        except StorageError as error:
            _log.warning("%s Trying again in %d s.", error, pause_s)
        time.sleep(pause_s)
    return action()


def is_url(storage: str) -> bool:
    """Whether a place is a URL for fsspec, and not a path."""
    return _URL.match(storage) is not None


def open_store(storage: str) -> Store:
    """The store at a path or URL.

    Raises:
        ConfigError: The URL cannot be used, for example because a package is missing.
    """
    if not is_url(storage):
        return FolderStore(Path(storage).absolute())
    store = UrlStore(storage.rstrip("/"))
    store.check()
    return store


@dataclass(frozen=True)
class FolderStore:
    """A folder of this machine, or one that all machines share."""

    root: Path

    def upload(self, source: Path, target: str) -> None:
        """Copy to a temporary name, then rename."""
        path = self.root / target
        with storage_errors(f"write {path}"):
            make_folder(path.parent)
            temporary = path.with_name(f"{TEMPORARY}{path.name}-{uuid4().hex}")
            try:
                shutil.copyfile(source, temporary)
                _sync(temporary)
                os.replace(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            sync_folder(path.parent)

    def upload_log(self, source: Path, target: str, start: int) -> None:
        """Write the new bytes in place."""
        path = self.root / target
        with storage_errors(f"write {path}"):
            make_folder(path.parent)
            with source.open("rb") as new, path.open("r+b" if path.exists() else "xb") as file:
                start = min(start, os.fstat(file.fileno()).st_size)
                new.seek(start)
                file.seek(start)
                shutil.copyfileobj(new, file)
                file.truncate()
                file.flush()
                os.fsync(file.fileno())

    def download(self, source: str, target: Path) -> bool:
        """Copy the file."""
        path = self.root / source
        with storage_errors(f"copy {path} to {target}"):
            if not path.is_file():
                return False
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            return True

    def copy(self, source: str, target: str) -> bool:
        """Make a hard link, if the file system has them."""
        path = self.root / target
        try:
            make_folder(path.parent)
            path.unlink(missing_ok=True)
            os.link(self.root / source, path)
        except OSError:
            return False
        return True

    def list(self, path: str) -> list[str]:
        """Names in the folder."""
        folder = self.root / path
        with storage_errors(f"list {folder}"):
            if not folder.is_dir():
                return []
            found = [entry for entry in folder.iterdir() if not entry.name.startswith(TEMPORARY)]
            return sorted(entry.name + "/" * entry.is_dir() for entry in found)

    def remove(self, path: str) -> None:
        """Remove everything at the path."""
        found = self.root / path
        with storage_errors(f"remove {found}"):
            if found.is_dir():
                shutil.rmtree(found)
            else:
                found.unlink(missing_ok=True)


@dataclass(frozen=True)
class UrlStore:
    """A place that fsspec can reach."""

    url: str

    def check(self) -> None:
        """Check that the URL can be used.

        Raises:
            ConfigError: It cannot.
        """
        try:
            self._open()
        except ImportError as error:
            raise ConfigError(f"The storage {self.url} needs a package: {error}.") from error
        except Exception as error:
            raise ConfigError(f"The storage {self.url} cannot be used: {error}") from error

    def upload(self, source: Path, target: str) -> None:
        """Send under a temporary name, then rename."""
        with self._errors("write", target) as (files, path):
            folder, _, name = path.rpartition("/")
            files.makedirs(folder, exist_ok=True)
            temporary = f"{folder}/{TEMPORARY}{name}-{uuid4().hex}"
            try:
                files.put_file(str(source), temporary)
                files.mv(temporary, path)
            except BaseException:
                with suppress(Exception):
                    files.rm_file(temporary)
                raise

    def upload_log(self, source: Path, target: str, start: int) -> None:
        """Send the whole file, because few of these places can append."""
        self.upload(source, target)

    def download(self, source: str, target: Path) -> bool:
        """Receive the file."""
        with self._errors("read", source) as (files, path):
            if not files.isfile(path):
                return False
            target.parent.mkdir(parents=True, exist_ok=True)
            files.get_file(path, str(target))
            return True

    def copy(self, source: str, target: str) -> bool:
        """Let the place copy it."""
        try:
            with self._errors("write", target) as (files, path):
                files.makedirs(path.rpartition("/")[0], exist_ok=True)
                files.cp_file(f"{self._open()[1]}/{source}", path)
        except StorageError:
            return False
        return True

    def list(self, path: str) -> list[str]:
        """Names below the path."""
        with self._errors("list", path) as (files, full):
            files.invalidate_cache()
            try:
                found = files.ls(full, detail=True)
            except FileNotFoundError:
                return []
        entries = [(entry["name"].rstrip("/"), entry["type"] == "directory") for entry in found]
        names = [
            entry.rpartition("/")[2] + "/" * is_folder
            for entry, is_folder in entries
            # Some places list a folder as one of its own entries.
            if entry != full.rstrip("/")
        ]
        return sorted(name for name in names if not name.startswith(TEMPORARY))

    def remove(self, path: str) -> None:
        """Remove everything at the path."""
        with self._errors("remove", path) as (files, full), suppress(FileNotFoundError):
            files.rm(full, recursive=True)

    def _open(self) -> tuple[Any, str]:
        """The file system, which fsspec keeps, and the path of this store in it."""
        from fsspec.core import url_to_fs

        files, root = url_to_fs(self.url)
        return files, str(root).rstrip("/")

    @contextmanager
    def _errors(self, action: str, path: str) -> Iterator[tuple[Any, str]]:
        """The file system and the full path; any error inside becomes a StorageError."""
        try:
            files, root = self._open()
            yield files, f"{root}/{path}"
        except BriskError:
            raise
        except Exception as error:
            # Every kind of place has its own classes of errors.
            raise StorageError(
                f"Could not {action} {self.url}/{path}: {str(error) or type(error).__name__}. "
                "Check that the storage can be reached and written."
            ) from error


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
