"""A folder as a store that fails, or with which the process is killed, at a chosen call."""

from __future__ import annotations

from pathlib import Path

from briskrl.cluster.storage import FolderStore
from briskrl.core.errors import StorageError
from briskrl.training.storage.atomic_files import TEMPORARY


class Killed(BaseException):
    """The process is gone; nothing handles this on the way."""


class FaultyStore:
    """Counts the calls that change something, and ends one of them halfway.

    Args:
        root: The folder.
        kill_at: Number of the call in which the process is killed; 0 for none.
        fail_every: Every call of a number that this divides fails halfway; 0 for none.
    """

    def __init__(self, root: Path, *, kill_at: int = 0, fail_every: int = 0) -> None:
        self._inner = FolderStore(root)
        self.kill_at = kill_at
        self._fail_every = fail_every
        self.calls = 0
        self.sent: list[str] = []
        """Files that were uploaded."""
        self.copied: list[str] = []
        """Files that were copied within the store."""

    def upload(self, source: Path, target: str) -> None:
        if error := self._error():
            path = self._inner.root / target
            path.parent.mkdir(parents=True, exist_ok=True)
            half = source.read_bytes()[: source.stat().st_size // 2]
            path.with_name(f"{TEMPORARY}{path.name}-half").write_bytes(half)
            raise error
        self.sent.append(target)
        self._inner.upload(source, target)

    def upload_log(self, source: Path, target: str, start: int) -> None:
        if error := self._error():
            path, new = self._inner.root / target, source.read_bytes()
            old = path.read_bytes() if path.exists() else b""
            end = (start + len(new)) // 2
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(old[:start] + new[start:end] + old[end:])
            raise error
        self.sent.append(target)
        self._inner.upload_log(source, target, start)

    def copy(self, source: str, target: str) -> bool:
        if error := self._error():
            raise error
        self.copied.append(target)
        return self._inner.copy(source, target)

    def remove(self, path: str) -> None:
        if error := self._error():
            # Files go in any order; this one is the worst.
            files = sorted(path for path in (self._inner.root / path).rglob("*") if path.is_file())
            for file in files[1::2]:
                file.unlink()
            raise error
        self._inner.remove(path)

    def download(self, source: str, target: Path) -> bool:
        return self._inner.download(source, target)

    def list(self, path: str) -> list[str]:
        return self._inner.list(path)

    def _error(self) -> BaseException | None:
        self.calls += 1
        if self.calls == self.kill_at:
            return Killed()
        if self._fail_every and self.calls % self._fail_every == 0:
            return StorageError("The store has failed.")
        return None
