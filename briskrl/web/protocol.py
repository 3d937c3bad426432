"""HTTP connections that are closed when no request arrives on them."""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""How long the first request of a connection may take to arrive."""


class ImpatientProtocol(H11Protocol):
    """uvicorn's protocol, which by itself waits forever for the rest of a request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait."""
        super().connection_made(cast("asyncio.Transport", transport))
        self.loop.call_later(HEAD_S, self._close_without_request)

    def _close_without_request(self) -> None:
        if self.headers is None and not self.transport.is_closing():
            self.transport.abort()
