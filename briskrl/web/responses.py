"""Responses of the routes: JSON, errors, and streams of server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response, StreamingResponse

if TYPE_CHECKING:
    from briskrl.core.types import JSON

EVENT_STREAM = "text/event-stream"
HEARTBEAT = b": still here\n\n"
"""A comment that keeps a quiet stream open, and finds out whether the client still is."""


def json_response(data: JSON, status: int = 200) -> Response:
    """Data as JSON; numbers that are not finite are null."""
    return json_bytes_response(encode(data), status)


def json_bytes_response(content: bytes, status: int = 200) -> Response:
    """JSON that has been encoded before."""
    return Response(content, status, media_type="application/json")


def error_response(status: int, message: str) -> Response:
    """A message that the page shows: `{"error": message}`."""
    return json_response({"error": message}, status)


def event_stream(events: AsyncIterator[tuple[str, JSON]]) -> Response:
    """A stream of named events; an event without a name is a heartbeat."""
    return StreamingResponse(_lines(events), media_type=EVENT_STREAM)


async def _lines(events: AsyncIterator[tuple[str, JSON]]) -> AsyncIterator[bytes]:
    async for name, data in events:
        yield b"event: %s\ndata: %s\n\n" % (name.encode(), encode(data)) if name else HEARTBEAT


def encode(data: JSON) -> bytes:
    """Data as JSON; numbers that are not finite are null."""
    try:
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(data), allow_nan=False, separators=(",", ":"))
    return text.encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
