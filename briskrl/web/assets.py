"""The files of the page, known by name; requests never become paths."""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from briskrl.web.responses import error_response

STATIC = Path(__file__).parent / "static"
PAGE = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
"""Media types by ending; other files, such as licenses, are not served."""


class Assets:
    """A table of all files under `static/`, made once."""

    def __init__(self) -> None:
        self._paths = {
            path.relative_to(STATIC).as_posix(): path
            for path in STATIC.rglob("*")
            if path.suffix in _TYPES and path.is_file()
        }
        self._loaded: dict[str, tuple[bytes, str]] = {}

    @property
    def names(self) -> frozenset[str]:
        """All names that are served, such as `js/main.js`."""
        return frozenset(self._paths)

    def respond(self, name: str, request: Request) -> Response:
        """The file of that name, "not modified", or 404."""
        if name not in self._paths:
            return error_response(404, "There is no such file.")
        content, tag = self._load(name)
        # Browsers ask every time, so that a new version of the package shows at once.
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=_TYPES[self._paths[name].suffix], headers=headers)

    def _load(self, name: str) -> tuple[bytes, str]:
        if name not in self._loaded:
            content = self._paths[name].read_bytes()
            self._loaded[name] = (content, f'"{hashlib.sha256(content).hexdigest()[:20]}"')
        return self._loaded[name]
