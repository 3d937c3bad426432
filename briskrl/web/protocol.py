"""HTTP connections that are closed when their client sends no request, or takes no answer."""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""How long the first request of a connection may take to arrive."""
WRITE_S = 30.0
"""How long a client may leave a full buffer of its answer unread."""


class ImpatientProtocol(H11Protocol):
    """uvicorn's protocol, which by itself waits forever for both."""

    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        super().connection_made(cast("asyncio.Transport", transport))
        self.loop.call_later(HEAD_S, self._abort_without_request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The buffer is full: begin to wait for the client."""
        super().pause_writing()
        self._stop_timer()
        self._write_timer = self.loop.call_later(WRITE_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        self._stop_timer()
        super().resume_writing()

    def _stop_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _abort_without_request(self) -> None:
        if self.headers is None and not self.transport.is_closing():
            self.transport.abort()
