"""The application: all routes behind the checks of `security`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from briskrl.web.assets import PAGE, Assets
from briskrl.web.context import WebContext
from briskrl.web.play import routes as play
from briskrl.web.responses import error_response
from briskrl.web.routes import curves, folders, runs
from briskrl.web.security import Access, Guard


def build_app(context: WebContext, access: Access) -> ASGIApp:
    """The whole application."""
    routes = [
        *_page_routes(),
        *runs.routes(context),
        *curves.routes(context),
        *folders.routes(context),
        *play.routes(context),
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        context.close()

    handlers = {HTTPException: _refused, Exception: _failed}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    # A name with a slash too many is unknown, like any other.
    app.router.redirect_slashes = False
    return Guard(app, access)


def _page_routes() -> list[Route]:
    assets = Assets()

    async def page(request: Request) -> Response:
        return assets.respond(PAGE, request)

    async def static(request: Request) -> Response:
        return assets.respond(request.path_params["name"], request)

    return [Route("/", page), Route("/static/{name:path}", static)]


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, f"{error.detail}.")


async def _failed(request: Request, error: Exception) -> Response:
    """A bug; its traceback goes to the log."""
    logging.getLogger(__name__).error("%s failed", request.url.path, exc_info=error)
    return error_response(500, f"The server failed: {type(error).__name__}.")
