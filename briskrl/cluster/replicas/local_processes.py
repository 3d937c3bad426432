"""The replicas of one attempt, as processes of this machine."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic

from briskrl.cluster.messages import Inbox, pack
from briskrl.cluster.replicas.messages import Go, ReplicaMessage, ReplicaOrder, StopNow
from briskrl.cluster.replicas.shared_memory import block_size
from briskrl.cluster.replicas.watch import RunWatch
from briskrl.cluster.resources import VISIBLE_GPUS, visible_gpus
from briskrl.core.anonymous_file import anonymous_file
from briskrl.core.child_process import ChildProcess, thread_limits
from briskrl.core.errors import ConfigError
from briskrl.training.config import TrainConfig
from briskrl.training.reporter import StopSignal
from briskrl.training.storage.run_dir import RunDir

_LOOK_S = 0.2
"""Seconds between two looks for a stop request."""
_GRACE_S = 3.0
"""How long the others have to say why they end, when one has ended."""
_KILL_S = 10.0


class ReplicaProcess(ChildProcess):
    """One replica, and this process's end of the connection."""

    def __init__(self, rank: int, memory: int, environment: dict[str, str]) -> None:
        # Standard output is for results.
        super().__init__(
            "briskrl.cluster.replicas.process",
            descriptors=[memory],
            environment=environment,
            output=sys.__stderr__.fileno() if sys.__stderr__ else None,
        )
        self.rank = rank
        self._inbox = Inbox()

    def send(self, message: object, descriptor: int | None = None) -> None:
        """Send a message, and a descriptor with it; a process that has gone gets nothing."""
        data = pack(message)
        with suppress(OSError):
            if descriptor is None:
                self.socket.sendall(data)
            else:
                socket.send_fds(self.socket, [data], [descriptor])

    def receive(self) -> list[ReplicaMessage] | None:
        """The messages that have arrived; None if the process has closed the connection."""
        try:
            data = self.socket.recv(1 << 20)
        except OSError:
            return None
        return list(self._inbox.feed(data)) if data else None

    def end(self) -> None:
        """Kill the process and those it has started."""
        with suppress(OSError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.kill(_KILL_S)


class LocalProcesses:
    """Runs one attempt.

    Args:
        config: Settings of the run.
        watch: Receives the messages.
        meeting: File in a private folder where replicas find each other.
        timeout_s: How long a replica may keep the others waiting.
    """

    def __init__(
        self, config: TrainConfig, watch: RunWatch, meeting: Path, timeout_s: float
    ) -> None:
        self._config = config
        self._watch = watch
        self._meeting = meeting
        self._timeout_s = timeout_s
        self._processes: list[ReplicaProcess] = []
        self.fewer: int | None = None
        self._selector = selectors.DefaultSelector()

    def start(self, *, resumed: bool) -> None:
        """Start all replicas."""
        config = self._config
        memory = anonymous_file("briskrl-replicas", block_size(config.replicas))
        try:
            for rank in range(config.replicas):
                environment = thread_limits(config.num_threads) | _gpu_of(config, rank)
                process = ReplicaProcess(rank, memory, environment)
                self._processes.append(process)
                self._selector.register(process.socket, selectors.EVENT_READ, process)
                process.send(
                    ReplicaOrder(
                        config=config,
                        rank=rank,
                        meeting=self._meeting,
                        timeout_s=self._timeout_s,
                        resumed=resumed,
                        engine=self._watch.engine,
                        command=tuple(sys.argv),
                    )
                )
        finally:
            os.close(memory)

    def run(
        self,
        open_folder: Callable[[], RunDir],
        stop: Callable[[], StopSignal | None],
        begun: Callable[[], None],
    ) -> None:
        """Watch the replicas until all have ended, or one has and the others cannot go on."""
        watch, asked, told, end = self._watch, False, False, None
        while len(watch.ended) < len(self._processes) and (end is None or monotonic() < end):
            for key, _ in self._selector.select(_LOOK_S):
                self._receive(key.data)
            if end is None and (watch.error or watch.losses):
                end = monotonic() + _GRACE_S
            if watch.all_built and not told and end is None:
                told = True
                self._begin(open_folder())
            if watch.begun:
                begun()
            reason = stop()
            if reason is not None and not asked:
                asked = True
                self._processes[0].send(StopNow(reason))

    def _begin(self, folder: RunDir) -> None:
        for process in self._processes:
            process.send(Go(folder.path.absolute()), folder.lock_descriptor)

    def _receive(self, process: ReplicaProcess) -> None:
        messages = process.receive()
        if messages is None:
            self._selector.unregister(process.socket)
            self._watch.lose(process.rank, process.describe_end())
            return
        for message in messages:
            self._watch.take(process.rank, message)

    def close(self) -> None:
        """End all replicas; may be called twice."""
        for process in self._processes:
            process.end()
        self._processes.clear()
        self._selector.close()


def _gpu_of(config: TrainConfig, rank: int) -> dict[str, str]:
    """Environment variables that give a replica a GPU of its own.

    Raises:
        ConfigError: There are not enough.
    """
    if config.device == "cpu":
        return {}
    gpus = visible_gpus()
    if len(gpus) >= config.replicas:
        return {VISIBLE_GPUS: gpus[rank]}
    if config.device == "cuda":
        raise ConfigError(
            f"{config.replicas} replicas on GPUs need as many of them, and this machine has "
            f"{len(gpus)}. Use fewer replicas, or --device cpu."
        )
    return {VISIBLE_GPUS: ""}
