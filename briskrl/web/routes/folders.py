"""Routes about the folder of one run: its files, and the report of the doctor."""

from __future__ import annotations

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from briskrl.web.context import WebContext
from briskrl.web.numpy_import import import_numpy
from briskrl.web.responses import error_response, json_response
from briskrl.web.routes.curves import UNKNOWN


def routes(context: WebContext) -> list[Route]:
    """/api/runs/ID/files, /api/runs/ID/files/KEY and /api/runs/ID/doctor."""

    async def files(request: Request) -> Response:
        folder = context.index.folder(request.path_params["id"])
        if folder is None:
            return error_response(404, UNKNOWN)
        await to_thread.run_sync(import_numpy)
        from briskrl.web.run_folder import describe_files

        return json_response(await to_thread.run_sync(describe_files, folder))

    async def text(request: Request) -> Response:
        folder = context.index.folder(request.path_params["id"])
        if folder is None:
            return error_response(404, UNKNOWN)
        await to_thread.run_sync(import_numpy)
        from briskrl.web.run_folder import read_text

        found = await to_thread.run_sync(read_text, folder, request.path_params["key"])
        if found is None:
            return error_response(404, "This file is not there, or is too large to show.")
        return json_response({"text": found})

    async def doctor(request: Request) -> Response:
        folder = context.index.folder(request.path_params["id"])
        if folder is None:
            return error_response(404, UNKNOWN)
        await to_thread.run_sync(import_numpy)
        from briskrl.web.run_folder import read_report

        return json_response({"report": await to_thread.run_sync(read_report, folder)})

    return [
        Route("/api/runs/{id}/files", files),
        Route("/api/runs/{id}/files/{key}", text),
        Route("/api/runs/{id}/doctor", doctor),
    ]
