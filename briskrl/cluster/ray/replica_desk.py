"""Between the driver of a run with replicas and their processes: an actor that keeps messages."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count

from briskrl.cluster.ray.relay import StoreAnswer, StoreCall
from briskrl.cluster.replicas.messages import ReplicaMessage
from briskrl.training.reporter import StopSignal

AT_ONCE = 1000
"""Calls that wait for something at a time, two for every replica."""


@dataclass(frozen=True, slots=True)
class FolderFacts:
    """The run folder, as the driver sees it."""

    path: str
    lock: bytes
    """Content of its lock file, which names the driver: a process that reads the same is on the
    same disk."""


@dataclass(frozen=True, slots=True)
class Asked:
    """From the first replica, on a machine without the run folder: do this there."""

    number: int
    call: StoreCall


DeskMessage = tuple[int, ReplicaMessage | Asked]
"""A message, and the replica it comes from."""


class ReplicaDesk:
    """Keeps what one side has said until the other asks for it; an actor without cores."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[DeskMessage] = asyncio.Queue()
        self._folder: asyncio.Future[FolderFacts] = asyncio.Future()
        self._stop: asyncio.Future[StopSignal] = asyncio.Future()
        self._answers: dict[int, asyncio.Future[StoreAnswer]] = {}
        self._numbers = count()
        self._over = False

    async def say(self, rank: int, message: ReplicaMessage) -> None:
        """From a replica, for the driver."""
        self._messages.put_nowait((rank, message))

    async def hear(self, timeout_s: float) -> list[DeskMessage]:
        """For the driver: messages, at most after the time."""
        try:
            found = [await asyncio.wait_for(self._messages.get(), timeout_s)]
        except TimeoutError:
            return []
        while not self._messages.empty():
            found.append(self._messages.get_nowait())
        return found

    async def open_folder(self, facts: FolderFacts) -> None:
        """From the driver: where the run is."""
        if not self._folder.done():
            self._folder.set_result(facts)

    async def folder(self) -> FolderFacts:
        """For a replica: where the run is, as soon as that is known."""
        return await asyncio.shield(self._folder)

    async def has_folder(self) -> bool:
        """Whether an earlier attempt has come that far."""
        return self._folder.done()

    async def request_stop(self, reason: StopSignal) -> None:
        """From the driver: save and stop."""
        if not self._stop.done():
            self._stop.set_result(reason)

    async def stop(self) -> StopSignal:
        """For the first replica: returns when the run is to stop."""
        return await asyncio.shield(self._stop)

    async def end(self) -> None:
        """From a replica: no other attempt would help, or is needed."""
        self._over = True

    async def is_over(self) -> bool:
        """Whether no other attempt should follow."""
        return self._over

    async def ask(self, call: StoreCall) -> StoreAnswer:
        """For the first replica: let the driver do something in its folder."""
        number = next(self._numbers)
        self._answers[number] = asyncio.Future()
        self._messages.put_nowait((0, Asked(number, call)))
        return await self._answers[number]

    async def answer(self, number: int, answer: StoreAnswer) -> None:
        """From the driver: what it has done."""
        self._answers.pop(number).set_result(answer)
