"""Who may ask what: checks before every route, headers on every response.

A page of another site can make a browser send requests to a server on its own machine. It cannot
read the answers without CORS headers, which are never sent; and a name of its own that points to
127.0.0.1 (DNS rebinding) is refused, because it is in the Host header. Requests that other sites
start are refused by Origin and Sec-Fetch-Site. On other addresses a token is required.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from briskrl.web.responses import error_response

METHODS = ("GET", "HEAD")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
}
"""Headers of every response."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use the dashboard."""

    host: str
    """Address that the server listens on."""
    port: int
    token: str | None = None
    """Required with every request; None if being on this machine is enough."""

    @property
    def cookie(self) -> str:
        """Name of the cookie; browsers do not tell ports of one host apart."""
        return f"brisk-dash-{self.port}"

    @property
    def proof(self) -> str:
        """What the cookie holds: it shows that the token was known, and is not the token."""
        return hashlib.sha256(b"brisk dash\0" + (self.token or "").encode()).hexdigest()

    def allows_host(self, header: str) -> bool:
        """Whether a Host header names this server.

        Any port will do, because a tunnel may have another one.
        """
        name = _host_name(header)
        if name in LOOPBACK or name == self.host:
            return True
        if self.host in LOOPBACK:
            return False
        # An address cannot be rebound; only names can.
        return _is_address(name) or name in (socket.gethostname().lower(), socket.getfqdn().lower())


class Guard:
    """ASGI middleware that refuses requests and adds headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then pass it on; only HTTP is served."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = _headers(scope)
        refused = _refuse(scope, headers, self._access)
        token_given = _query_token(scope)
        guarded = _guarded(send, self._new_cookie(token_given) if refused is None else None)
        if refused is None:
            await self._app(scope, receive, guarded)
        else:
            status, message = refused
            await error_response(status, message)(scope, receive, guarded)

    def _new_cookie(self, token_given: str | None) -> bytes | None:
        if token_given is None or self._access.token is None:
            return None
        access = self._access
        return (
            f"{access.cookie}={access.proof}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000"
        ).encode()


def _refuse(scope: Scope, headers: dict[str, str], access: Access) -> tuple[int, str] | None:
    """Status and message for a request that is refused; None if it may pass."""
    if scope["method"] not in METHODS:
        return 405, "The dashboard only reads: GET and HEAD."
    if not access.allows_host(headers.get("host", "")):
        return 403, "This host name is not served. Use the address that brisk dash has printed."
    origin = headers.get("origin")
    if origin is not None and origin not in _own_origins(headers["host"]):
        return 403, "Requests of other sites are refused."
    site = headers.get("sec-fetch-site", "none")
    navigates = headers.get("sec-fetch-mode") == "navigate" and scope["path"] == "/"
    if site not in ("none", "same-origin") and not navigates:
        return 403, "Requests of other sites are refused."
    if access.token is not None and not _knows_token(scope, headers, access):
        return 401, "A token is needed. Open the whole address that brisk dash has printed."
    return None


def _knows_token(scope: Scope, headers: dict[str, str], access: Access) -> bool:
    assert access.token is not None
    kind, _, given = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and _equal(given.strip(), access.token):
        return True
    query = _query_token(scope)
    if query is not None and _equal(query, access.token):
        return True
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(access.cookie)
    except CookieError:
        return False
    return cookie is not None and _equal(cookie.value, access.proof)


def _query_token(scope: Scope) -> str | None:
    """The token in the address, which is only accepted for the page itself."""
    if scope["path"] != "/":
        return None
    found = parse_qs(scope["query_string"].decode("latin-1")).get("token")
    return found[0] if found else None


def _equal(given: str, expected: str) -> bool:
    """Compare in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def _headers(scope: Scope) -> dict[str, str]:
    return {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}


def _host_name(header: str) -> str:
    """The name in a Host header, without port and brackets; empty if it is malformed."""
    header = header.strip().lower()
    if header.startswith("["):
        name, bracket, rest = header[1:].partition("]")
        return name if bracket and (not rest or _is_port(rest)) else ""
    name, colon, port = header.partition(":")
    return name if not colon or _is_port(colon + port) else ""


def _is_port(text: str) -> bool:
    return text.startswith(":") and text[1:].isascii() and text[1:].isdecimal()


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _own_origins(host: str) -> tuple[str, str]:
    return f"http://{host}", f"https://{host}"


def _guarded(send: Send, cookie: bytes | None) -> Send:
    """Add headers to the response."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = _with_headers(message["headers"], cookie, message["status"])
        await send(message)

    return guarded


def _with_headers(
    given: list[tuple[bytes, bytes]], cookie: bytes | None, status: int
) -> list[tuple[bytes, bytes]]:
    names = {name for name, _ in given}
    headers = [*given, *HEADERS.items()]
    if b"cache-control" not in names:
        headers.append((b"cache-control", b"no-store"))
    if status == 405:
        headers.append((b"allow", ", ".join(METHODS).encode()))
    if cookie is not None:
        headers.append((b"set-cookie", cookie))
    return headers
