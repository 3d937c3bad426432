"""Messages between the server and a player process: lines of JSON over a socket.

The server sends objects with an `id`. A player answers each with one reply and sends events at any
time. Its lines begin with what they are, so that the server passes events on without parsing them:
`reply ID {...}` or `event NAME {...}`.
"""

from __future__ import annotations

import select
import socket
from typing import Any

import msgspec

from briskrl.core.types import JSON

_CHUNK = 1 << 16


class RequestError(Exception):
    """A request that cannot be met.

    Args:
        code: What the page tells apart, such as `no-policy`.
        text: A sentence for the user.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    def as_json(self) -> dict[str, JSON]:
        """The refusal as a JSON object."""
        return {"code": self.code, "text": self.text}


class Wire:
    """The player's end of the connection.

    Args:
        connection: The socket to the server.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = b""

    def receive(self, *, wait: bool) -> dict[str, Any] | None:
        """The next request; None if there is none yet and `wait` is False.

        Raises:
            EOFError: The server has closed the connection.
        """
        while b"\n" not in self._received:
            if not wait and not select.select([self._connection], [], [], 0)[0]:
                return None
            chunk = self._connection.recv(_CHUNK)
            if not chunk:
                raise EOFError
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        request: dict[str, Any] = msgspec.json.decode(line)
        return request

    def reply(self, request: int, content: JSON) -> None:
        """Answer a request."""
        self._send(f"reply {request} ", content)

    def event(self, name: str, content: JSON) -> None:
        """Send something that was not asked for."""
        self._send(f"event {name} ", content)

    def _send(self, head: str, content: JSON) -> None:
        self._connection.sendall(head.encode() + msgspec.json.encode(content) + b"\n")
