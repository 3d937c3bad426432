"""Serve the dashboard until a signal comes."""

from __future__ import annotations

import errno
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from briskrl.core.errors import BriskError, ConfigError
from briskrl.web.security import LOOPBACK, Access

PORT = 7450
NEXT_PORTS = 20
"""Ports that are tried after the first one, unless a port was asked for."""
INSTALL = "The dashboard needs starlette and uvicorn. Install them with: pip install 'briskrl[web]'"
BACKLOG = 512
LONGEST_HEAD = 32_768
"""Bytes of a request before it counts as malformed."""
CONNECTIONS = 800
"""Open connections at most; others are answered 503."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the page is, and the socket that listens there."""

    access: Access
    listener: socket.socket

    @property
    def url(self) -> str:
        """What to open, with the token if there is one."""
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(
            self.access.host, self.access.host
        )
        host = f"[{host}]" if ":" in host else host
        token = f"?token={self.access.token}" if self.access.token else ""
        return f"http://{host}:{self.access.port}/{token}"


def bind(host: str, port: int | None, token: str | None) -> Address:
    """Listen on an address; without a token, one is made for others than loopback.

    Raises:
        BriskError: The port is taken, or the address is not one of this machine.
    """
    listener, taken = _listen(host, port)
    if token is None and host not in LOOPBACK:
        token = secrets.token_urlsafe(24)
    return Address(Access(host.lower(), taken, token), listener)


def _listen(host: str, port: int | None) -> tuple[socket.socket, int]:
    first = PORT if port is None else port
    last = first + (NEXT_PORTS if port is None else 0)
    for candidate in range(first, last + 1):
        try:
            listener = socket.create_server(
                (host, candidate), family=_family(host), backlog=BACKLOG
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE and candidate < last:
                continue
            raise _bind_error(host, candidate, error) from error
        return listener, int(listener.getsockname()[1])
    raise AssertionError("the loop ends with a listener or an error")


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _bind_error(host: str, port: int, error: OSError) -> BriskError:
    if error.errno == errno.EADDRINUSE:
        return BriskError(f"Port {port} is taken. Choose another one with --port, or 0 for any.")
    if error.errno == errno.EACCES:
        return BriskError(f"Port {port} needs other rights. Choose one above 1023 with --port.")
    return ConfigError(f"Cannot listen on {host}: {error.strerror or error}.")


def serve(
    roots: Sequence[Path],
    address: Address,
    *,
    ready: Callable[[], None],
    trust: bool = False,
    until: Callable[[], object] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        roots: Folders of runs.
        address: Where to listen.
        ready: Called when the page can be opened.
        trust: See WebContext.
        until: Returns when the server shall end, too; called in a thread.

    Raises:
        ConfigError: The packages of the extra are missing.
    """
    try:
        import uvicorn

        from briskrl.web.app import build_app
        from briskrl.web.protocol import ImpatientProtocol
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("starlette", "uvicorn", "anyio", "h11"):
            raise ConfigError(INSTALL) from error
        raise
    from briskrl.web.context import WebContext
    from briskrl.web.run_index import RunIndex

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()
            if until is not None:
                threading.Thread(target=self._end_after, args=(until,), daemon=True).start()

        def _end_after(self, wait: Callable[[], object]) -> None:
            wait()
            self.should_exit = True

    config = uvicorn.Config(
        build_app(WebContext(RunIndex(roots), trust=trust), address.access),
        # Bugs are logged by the application; streams that end with the server are none.
        log_level="critical",
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        http=ImpatientProtocol,
        h11_max_incomplete_event_size=LONGEST_HEAD,
        loop="asyncio",
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=0,
        proxy_headers=False,
    )
    Server(config).run(sockets=[address.listener])
