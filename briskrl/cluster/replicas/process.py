"""The program of a replica on this machine, which the driver starts; see `local.py`."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

from briskrl.cluster.messages import Inbox, pack
from briskrl.cluster.replicas.messages import Go, ReplicaMessage, ReplicaOrder, StopNow
from briskrl.training.reporter import StopSignal


class Flag:
    """Set when the driver asks to stop."""

    requested: StopSignal | None = None


class LocalPlace:
    """A process whose driver is at the other end of a socket.

    Args:
        order: Which replica to be.
        connection: The socket.
        memory: File of the memory that the replicas share.
    """

    def __init__(self, order: ReplicaOrder, connection: socket.socket, memory: int) -> None:
        self._order = order
        self._connection = connection
        self._memory = memory
        self._folders: SimpleQueue[Path] = SimpleQueue()
        self._lock = threading.Lock()
        self.held: list[int] = []
        """Descriptors from the driver, such as that of the lock of the run folder: it stays locked
        until the last process that may write has ended."""
        self.stop = Flag()
        threading.Thread(target=self._listen, name="briskrl-driver", daemon=True).start()

    def connect(self) -> Any:
        """Connect to the other replicas."""
        from briskrl.cluster.replicas.shared_memory import SharedMemoryGroup
        from briskrl.cluster.replicas.torch_group import join_local_group

        order = self._order
        group = join_local_group(order.meeting, order.rank, order.config.replicas, order.timeout_s)
        return SharedMemoryGroup(group, self._memory, order.timeout_s)

    def wait_for_folder(self) -> Any:
        """The run folder, when the driver has created it."""
        from briskrl.training.storage.run_dir import RunDir

        return RunDir(self._folders.get())

    def send(self, message: ReplicaMessage) -> None:
        """Send a message to the driver."""
        with self._lock:
            self._connection.sendall(pack(message))

    def _listen(self) -> None:
        """Receive what the driver sends; this process ends with the driver, not here."""
        inbox = Inbox()
        while True:
            data, descriptors, _, _ = socket.recv_fds(self._connection, 1 << 16, 1)
            if not data:
                return
            self.held += descriptors
            for message in inbox.feed(data):
                if isinstance(message, Go):
                    self._folders.put(message.folder)
                elif isinstance(message, StopNow):
                    self.stop.requested = message.reason


def main(connection: int, memory: int) -> None:
    """Be a replica for the driver at the other end of the socket."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The driver gets the same signal. Not SIG_IGN, which programs started by environments
        # would inherit.
        signal.signal(number, _ignore_signal)
    ours = socket.socket(fileno=connection)
    order = _receive_order(ours)
    sys.argv = list(order.command)
    place = LocalPlace(order, ours, memory)
    from briskrl.cluster.replicas.replica import run_replica
    from briskrl.training.replicas.loop import Setup

    run_replica(Setup(order.config, order.resumed, order.engine), place, place.send)
    # Threads of gloo and of environments have nothing left to do.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _receive_order(connection: socket.socket) -> ReplicaOrder:
    size = int.from_bytes(_read(connection, 8), "little")
    order: ReplicaOrder = pickle.loads(_read(connection, size))
    return order


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("the driver has gone")
        data += piece
    return data


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    """The driver gets the same signal and decides what to do."""
