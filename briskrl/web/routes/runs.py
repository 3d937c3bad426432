"""Routes about the table of runs: rows once and live, their settings, filters, and sweeps."""

from __future__ import annotations

import time
from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from briskrl.core.errors import BriskError
from briskrl.training.storage.run_selection import filter_runs
from briskrl.web.context import WebContext
from briskrl.web.numpy_import import import_numpy
from briskrl.web.responses import error_response, event_stream, json_response
from briskrl.web.run_index import Entry
from briskrl.web.watcher import Watcher

MOST_CONDITIONS = 20


def routes(context: WebContext) -> list[Route]:
    """/api/runs, /api/settings, /api/matching, /api/sweeps, and the stream /api/events."""
    index = context.index
    watcher = Watcher(index)

    async def rows(request: Request) -> Response:
        await to_thread.run_sync(index.scan)
        found, _ = index.changes_since(-1)
        roots = [str(root) for root in index.roots]
        return json_response({"runs": found, "now": time.time(), "roots": roots})

    async def events(request: Request) -> Response:
        if watcher.is_full:
            return error_response(503, "Too many pages are open.")
        return event_stream(watcher.stream())

    async def settings(request: Request) -> Response:
        return json_response(await to_thread.run_sync(_settings, index.entries()))

    async def matching(request: Request) -> Response:
        conditions = request.query_params.getlist("filter")[:MOST_CONDITIONS]
        try:
            ids = await to_thread.run_sync(_matching, index.entries(), conditions)
        except BriskError as error:
            # Half of a condition is no failure: somebody is typing.
            return json_response({"ids": [], "problem": str(error).replace("--filter ", "")})
        return json_response({"ids": ids, "problem": ""})

    async def sweeps(request: Request) -> Response:
        await to_thread.run_sync(import_numpy)
        from briskrl.web.sweeps import describe_sweeps

        return json_response({"sweeps": await to_thread.run_sync(describe_sweeps, index)})

    return [
        Route("/api/runs", rows),
        Route("/api/events", events),
        Route("/api/settings", settings),
        Route("/api/matching", matching),
        Route("/api/sweeps", sweeps),
    ]


def _settings(entries: list[Entry]) -> dict[str, Any]:
    """Settings that all runs share, and per run those it does not share."""
    shared: dict[str, Any] = dict(entries[0].settings) if entries else {}
    for entry in entries:
        shared = {k: v for k, v in shared.items() if k in entry.settings and entry.settings[k] == v}
    own = {
        entry.id: {k: v for k, v in entry.settings.items() if k not in shared} for entry in entries
    }
    return {"shared": shared, "own": own}


def _matching(entries: list[Entry], conditions: list[str]) -> list[str]:
    facts = [
        {**entry.row, "age_s": time.time() - entry.row["changed_at"], "settings": entry.settings}
        for entry in entries
    ]
    return [run["id"] for run in filter_runs(facts, conditions)]
