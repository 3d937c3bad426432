"""Routes about the course of runs: curves, phases, and settings that differ."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from briskrl.web.context import WebContext
from briskrl.web.numpy_import import import_numpy
from briskrl.web.responses import error_response, json_bytes_response, json_response
from briskrl.web.run_index import Entry

if TYPE_CHECKING:
    from briskrl.training.storage.episode_log import Clock

CLOCKS = ("env_steps", "wall_s", "cpu_s")
MOST_RUNS = 100
"""Runs of one chart."""
UNKNOWN = "This run does not exist any more."


def routes(context: WebContext) -> list[Route]:
    """/api/curves, /api/differences, and /api/runs/ID/phases."""

    async def curves(request: Request) -> Response:
        return await to_thread.run_sync(_answer, _curves, context, request)

    async def differing(request: Request) -> Response:
        return await to_thread.run_sync(_answer, _differences, context, request)

    async def phases(request: Request) -> Response:
        return await to_thread.run_sync(_answer, _phases, context, request)

    return [
        Route("/api/curves", curves),
        Route("/api/differences", differing),
        Route("/api/runs/{id}/phases", phases),
    ]


def _answer(
    work: Callable[[WebContext, Request], dict[str, Any] | bytes],
    context: WebContext,
    request: Request,
) -> Response:
    import_numpy()
    try:
        found = work(context, request)
        return json_bytes_response(found) if isinstance(found, bytes) else json_response(found)
    except KeyError:
        return error_response(404, UNKNOWN)
    except ValueError as error:
        return error_response(400, str(error))


def _curves(context: WebContext, request: Request) -> bytes:
    from briskrl.web.series.curve_sets import Wanted

    query = request.query_params
    wanted = Wanted(
        metrics=tuple(query.getlist("metric")[:50]),
        clock=_clock(query.get("x", "env_steps")),
        group=query.get("group", "")[:200],
        window=_window(query.get("from"), query.get("to")),
    )
    return context.curves.answer(_entries(context, request), wanted)


def _differences(context: WebContext, request: Request) -> dict[str, Any]:
    from briskrl.web.series.curve_sets import differences

    return differences(_entries(context, request))


def _phases(context: WebContext, request: Request) -> dict[str, Any]:
    from briskrl.web.series.curve_sets import READ_S
    from briskrl.web.series.phase_shares import phase_shares

    folder = context.index.folder(request.path_params["id"])
    if folder is None:
        raise KeyError
    series = context.series.of(folder)
    deadline = time.monotonic() + READ_S
    series.phases.advance(deadline)
    series.metrics.advance(deadline)
    return phase_shares(series)


def _entries(context: WebContext, request: Request) -> list[Entry]:
    """The runs of a request; those that are gone meanwhile are left out."""
    ids = list(dict.fromkeys(request.query_params.getlist("run")))[:MOST_RUNS]
    return [entry for run_id in ids if (entry := context.index.entry(run_id)) is not None]


def _clock(text: str) -> Clock:
    if text not in CLOCKS:
        raise ValueError(f"x must be one of {', '.join(CLOCKS)}.")
    return cast("Clock", text)


def _window(begin: str | None, end: str | None) -> tuple[float, float] | None:
    if begin is None or end is None:
        return None
    first, last = float(begin), float(end)
    if not (math.isfinite(first) and math.isfinite(last) and first < last):
        raise ValueError("from must be less than to.")
    return first, last
