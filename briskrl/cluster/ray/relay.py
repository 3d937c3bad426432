"""A store for workers that share no disk with the driver: files travel through Ray.

    worker process --(Unix socket)-- host, a Ray actor --(Ray)-- driver, which has the files

A worker sends one `StoreCall` at a time and waits for its `StoreAnswer`. Files are sent in pieces,
so that neither side needs memory for a whole one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Literal

from briskrl.cluster.messages import Inbox, pack
from briskrl.core.errors import StorageError
from briskrl.training.storage.atomic_files import storage_errors

WRITE_BYTES = 64 << 10
"""Of a piece for the driver. Ray sends up to 100 KB with the answer of a call; what is larger waits
in the memory of the node, and a driver that waits for it does not hear of the loss of the node."""
READ_BYTES = 4 << 20
"""Of a piece for a worker."""
_RECEIVE_BYTES = 1 << 20
Method = Literal["write", "write_log", "size", "read", "copy", "list", "remove"]


@dataclass(frozen=True, slots=True)
class StoreCall:
    """From a worker: a call of a method of `DriverFiles`."""

    method: Method
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """From the driver: what the call has returned, or why it failed."""

    value: Any = None
    error: str | None = None


@dataclass(frozen=True)
class RelayStore:
    """A store (see `briskrl.cluster.storage`) that is used through a Unix socket."""

    path: str
    """Of the socket."""

    def upload(self, source: Path, target: str) -> None:
        """Send the pieces; the driver writes to a temporary name, and renames after the last."""
        self._send("write", source, target, 0)

    def upload_log(self, source: Path, target: str, start: int) -> None:
        """Send the new bytes, which are written in place."""
        self._send("write_log", source, target, min(start, self._call("size", target)))

    def download(self, source: str, target: Path) -> bool:
        """Receive the pieces."""
        piece = self._call("read", source, 0, READ_BYTES)
        if piece is None:
            return False
        with storage_errors(f"write {target}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                while piece:
                    file.write(piece)
                    last = len(piece) < READ_BYTES
                    piece = b"" if last else self._call("read", source, file.tell(), READ_BYTES)
        return True

    def copy(self, source: str, target: str) -> bool:
        """Let the driver copy it."""
        return bool(self._call("copy", source, target))

    def list(self, path: str) -> list[str]:
        """Names below the path."""
        found: list[str] = self._call("list", path)
        return found

    def remove(self, path: str) -> None:
        """Remove everything at the path."""
        self._call("remove", path)

    def _send(self, method: Method, source: Path, target: str, start: int) -> None:
        with storage_errors(f"read {source}"), source.open("rb") as file:
            # A log may grow meanwhile.
            size = os.fstat(file.fileno()).st_size
            while True:
                file.seek(start)
                piece = file.read(min(WRITE_BYTES, max(0, size - start)))
                last = start + len(piece) >= size or not piece
                self._call(method, target, start, piece, last)
                start += len(piece)
                if last:
                    return

    def _call(self, method: Method, *arguments: Any) -> Any:
        """Ask the driver.

        Raises:
            StorageError: It could not do that, or cannot be reached.
        """
        try:
            answer = self._ask(StoreCall(method, arguments))
        except OSError as error:
            raise StorageError(f"The driver cannot be reached: {error}.") from error
        if answer.error is not None:
            raise StorageError(answer.error)
        return answer.value

    def _ask(self, call: StoreCall) -> StoreAnswer:
        inbox = Inbox()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.path)
            connection.sendall(pack(call))
            while data := connection.recv(_RECEIVE_BYTES):
                for answer in inbox.feed(data):
                    assert isinstance(answer, StoreAnswer)
                    return answer
        raise ConnectionError("its connection was closed")


class Relay:
    """The host's end of the Unix socket; passes one call after the other to the driver.

    Args:
        path: Of the socket, in a folder of this user only.
        ask: Passes a call on and returns the answer.
    """

    def __init__(self, path: Path, ask: Callable[[StoreCall], StoreAnswer]) -> None:
        self.store = RelayStore(str(path))
        """The other end, for workers on this machine."""
        self._ask = ask
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = Thread(target=self._serve, name="briskrl-relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; waits a second at most for a call that is being answered."""
        # Wakes up accept(), which close() alone does not.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=1.0)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                # The relay was closed.
                return
            with connection:
                try:
                    self._answer(connection)
                except OSError:
                    # The worker has ended while it waited.
                    continue

    def _answer(self, connection: socket.socket) -> None:
        inbox = Inbox()
        while data := connection.recv(_RECEIVE_BYTES):
            for call in inbox.feed(data):
                connection.sendall(pack(self._ask(call)))
                return
