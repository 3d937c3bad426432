"""Replicas as threads of one process, for tests of what they compute."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import numpy as np


class Meeting:
    """What the threads share."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = threading.Barrier(size, timeout=60)
        self.values: list[Any] = [None] * size
        self.letters = {(sender, to): SimpleQueue() for sender in range(size) for to in range(size)}


class ThreadGroup:
    """A ReplicaGroup."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting = meeting
        self.rank, self.size = rank, meeting.size

    def average(self, tensor) -> None:
        rows = self.gather(tensor.numpy())
        tensor.numpy()[...] = rows.sum(axis=0, dtype=rows.dtype) / self.size

    def gather(self, values):
        meeting = self._meeting
        meeting.values[self.rank] = values.copy()
        meeting.barrier.wait()
        found = np.stack(meeting.values)
        meeting.barrier.wait()
        return found

    def send(self, data: bytes, rank: int) -> None:
        self._meeting.letters[self.rank, rank].put(data)

    def receive(self, rank: int) -> bytes:
        return self._meeting.letters[rank, self.rank].get(timeout=60)

    def take_waited_ns(self) -> int:
        return 0


def in_threads(size: int, work: Callable[[ThreadGroup], Any]) -> list[Any]:
    """Call `work` in one thread for each replica; returns the results by rank."""
    meeting = Meeting(size)

    def run(rank: int) -> Any:
        try:
            return work(ThreadGroup(meeting, rank))
        except BaseException:
            meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(run, rank) for rank in range(size)]
    errors = [error for future in futures if (error := future.exception()) is not None]
    # The others report only that this one has left.
    causes = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
    if errors:
        raise (causes or errors)[0]
    return [future.result() for future in futures]
