"""One scan for all viewers: looks at the folders while anybody watches, and wakes the streams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anyio import to_thread

from briskrl.web.run_index import RunIndex

if TYPE_CHECKING:
    from briskrl.core.types import JSON

SCAN_S = 1.0
HEARTBEAT_S = 15.0
MOST_VIEWERS = 400


class Watcher:
    """Streams of what has changed; a slow reader skips what is out of date, so nothing queues."""

    def __init__(self, index: RunIndex) -> None:
        self.viewers = 0
        self._index = index
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether no further stream is served."""
        return self.viewers >= MOST_VIEWERS

    async def stream(self) -> AsyncIterator[tuple[str, JSON]]:
        """All rows, then those that change, and ids that are gone; heartbeats in between."""
        with self._viewer():
            if self._index.version == 0:
                await to_thread.run_sync(self._index.scan)
            seen = -1
            while True:
                changed = self._changed
                newest = self._index.version
                if newest > seen:
                    rows, gone = self._index.changes_since(seen)
                    first, seen = seen < 0, newest
                    news = {"runs": rows, "gone": gone, "all": first, "now": time.time()}
                    yield "runs", news
                else:
                    yield "", None
                await _wait(changed)

    @contextmanager
    def _viewer(self) -> Iterator[None]:
        self.viewers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._scan())
        try:
            yield
        finally:
            self.viewers -= 1

    async def _scan(self) -> None:
        """Scan until the last viewer has left."""
        while self.viewers:
            if await to_thread.run_sync(self._index.scan):
                self._changed.set()
                self._changed = asyncio.Event()
            await asyncio.sleep(SCAN_S)
        self._task = None


async def _wait(changed: asyncio.Event) -> None:
    """Until something has changed, or a heartbeat is due."""
    try:
        async with asyncio.timeout(HEARTBEAT_S):
            await changed.wait()
    except TimeoutError:
        return
