"""One viewing session: a player process, the requests to it, and the events that it sends."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briskrl.core.anonymous_file import anonymous_file
from briskrl.core.child_process import ChildProcess, thread_limits
from briskrl.web.responses import HEARTBEAT

if TYPE_CHECKING:
    from briskrl.core.types import JSON

PLAYER = "briskrl.web.play.player.process"
HEARTBEAT_S = 10.0
GRACE_S = 4.0
"""How long a player lives on without a viewer, who may be loading the page again."""
FIRST_VIEWER_S = 20.0
IDLE_S = 900.0
"""A player of which nothing is asked for this long ends; a paused page asks nothing."""
KILL_S = 10.0
REPLY_S = 300.0
"""Longest time for an answer; preparing an environment may compile it first."""
LONGEST_LINE = 1 << 26
_LAST_WORDS = 2000


class PlayerError(Exception):
    """A request that the player has refused, or could not answer.

    Args:
        code: What the page tells apart.
        text: A sentence for the user.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Session:
    """A player process with at most one viewer.

    Args:
        on_end: Called once, when the session ends.
    """

    def __init__(self, on_end: Callable[[Session], None]) -> None:
        self.id = secrets.token_urlsafe(18)
        self._on_end = on_end
        self._output = anonymous_file("brisk-player", 0)
        self._process = ChildProcess(PLAYER, environment=thread_limits(1), output=self._output)
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._requests = 0
        self._events: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._viewer = 0
        self._watched = False
        self._ended = False
        loop = asyncio.get_running_loop()
        self._asked_at = loop.time()
        self._timers = {
            "first": loop.call_later(FIRST_VIEWER_S, self._end_unwatched),
            "idle": loop.call_later(IDLE_S, self._end_idle),
        }

    @property
    def pid(self) -> int:
        """The process id of the player."""
        return self._process.popen.pid

    @property
    def watched(self) -> bool:
        """Whether a page receives the events."""
        return self._watched

    async def open(self, folder: Path, *, trust: bool, **request: JSON) -> None:
        """Connect, and let the player load a policy; failures become events."""
        reader, self._writer = await asyncio.open_connection(
            sock=self._process.socket, limit=LONGEST_LINE
        )
        self._reading = asyncio.create_task(self._read(reader))
        self._opening = asyncio.create_task(
            self._open({"folder": str(folder), "trust": trust, **request})
        )

    async def _open(self, request: Mapping[str, JSON]) -> None:
        try:
            await self.ask("open", request)
        except PlayerError as error:
            self.end(error.code, error.text)

    async def ask(self, verb: str, values: Mapping[str, JSON]) -> dict[str, Any]:
        """The player's answer to a request.

        Raises:
            PlayerError: It refuses, has ended, or does not answer.
        """
        if self._ended or self._writer is None:
            raise PlayerError("ended", "This game has ended.")
        loop = asyncio.get_running_loop()
        self._asked_at = loop.time()
        self._requests += 1
        number, future = self._requests, loop.create_future()
        self._replies[number] = future
        self._writer.write(json.dumps({**values, "id": number, "do": verb}).encode() + b"\n")
        try:
            async with asyncio.timeout(REPLY_S):
                reply: dict[str, Any] = await future
        except TimeoutError as error:
            raise PlayerError("silent", "The player does not answer.") from error
        finally:
            self._replies.pop(number, None)
        if "error" in reply:
            raise PlayerError(reply["error"]["code"], reply["error"]["text"])
        found: dict[str, Any] = reply["ok"]
        return found

    async def stream(self) -> AsyncIterator[bytes]:
        """Server-sent events for one viewer; a later viewer takes over."""
        self._viewer += 1
        mine = self._viewer
        self._watched = True
        self._news.set()
        try:
            while mine == self._viewer:
                while self._events and mine == self._viewer:
                    yield self._events.popleft()
                if self._ended:
                    return
                self._news.clear()
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await self._news.wait()
                except TimeoutError:
                    yield HEARTBEAT
        finally:
            if mine == self._viewer:
                self._watched = False
                self._wait_for_viewer()

    def end(self, code: str, text: str) -> None:
        """End the player; a viewer gets the reason."""
        if self._ended:
            return
        self._ended = True
        for timer in self._timers.values():
            timer.cancel()
        self._push("failed", json.dumps({"code": code, "text": text}).encode())
        for future in self._replies.values():
            if not future.done():
                future.set_result({"error": {"code": code, "text": text}})
        if self._writer is not None:
            self._writer.close()
        # In a thread, because a busy machine takes its time to end a process.
        asyncio.get_running_loop().run_in_executor(None, self.kill)
        self._on_end(self)

    def kill(self) -> None:
        """Kill the process and wait for its end; may be called twice."""
        self._process.kill(KILL_S)
        if self._output >= 0:
            os.close(self._output)
            self._output = -1

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError, ValueError):
            while line := await reader.readline():
                self._receive(line)
        if not self._ended:
            ended = await asyncio.to_thread(self._process.describe_end)
            reason = f"The player {ended}."
            words = self._last_words()
            self.end("died", f"{reason} {words}" if words else reason)

    def _receive(self, line: bytes) -> None:
        kind, name, content = line.split(b" ", 2)
        if kind == b"event":
            self._push(name.decode(), content.rstrip(b"\n"))
            return
        future = self._replies.get(int(name))
        if future is not None and not future.done():
            future.set_result(json.loads(content))

    def _push(self, name: str, content: bytes) -> None:
        self._events.append(b"event: %s\ndata: %s\n\n" % (name.encode(), content))
        self._news.set()

    def _last_words(self) -> str:
        """The last line that the process has printed."""
        size = os.fstat(self._output).st_size
        tail = os.pread(self._output, _LAST_WORDS, max(0, size - _LAST_WORDS))
        lines = [line.strip() for line in tail.decode(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")

    def _wait_for_viewer(self) -> None:
        if not self._ended:
            loop = asyncio.get_running_loop()
            self._timers["viewer"] = loop.call_later(GRACE_S, self._end_unwatched)

    def _end_unwatched(self) -> None:
        if not self._watched:
            self.end("left", "Nobody watched.")

    def _end_idle(self) -> None:
        loop = asyncio.get_running_loop()
        rest = self._asked_at + IDLE_S - loop.time()
        if rest <= 0:
            self.end("idle", "The game was paused for long and has ended.")
        else:
            self._timers["idle"] = loop.call_later(rest, self._end_idle)
