"""Routes of the play view."""

from __future__ import annotations

from starlette.routing import Route

from briskrl.web.context import WebContext


def routes(context: WebContext) -> list[Route]:
    """Everything under /api/play/."""
    del context
    return []
