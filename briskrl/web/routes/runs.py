"""Routes about the table of runs: its rows, once and live."""

from __future__ import annotations

import time

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from briskrl.web.context import WebContext
from briskrl.web.responses import error_response, event_stream, json_response
from briskrl.web.watcher import Watcher


def routes(context: WebContext) -> list[Route]:
    """The rows under /api/runs, and their stream under /api/events."""
    watcher = Watcher(context.index)

    async def rows(request: Request) -> Response:
        await to_thread.run_sync(context.index.scan)
        found, _ = context.index.changes_since(-1)
        return json_response({"runs": found, "now": time.time()})

    async def events(request: Request) -> Response:
        if watcher.is_full:
            return error_response(503, "Too many pages are open.")
        return event_stream(watcher.stream())

    return [Route("/api/runs", rows), Route("/api/events", events)]
