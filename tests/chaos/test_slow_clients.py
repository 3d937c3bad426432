"""The dashboard answers others while 200 clients read nothing, or never finish a request."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.web.dashboards import dashboard, get_json, make_run

pytestmark = pytest.mark.chaos

CLIENTS, SECONDS = 200, 60
MEMORY_MB = 100
"""More than that would mean that answers pile up."""


def attack(address: tuple[str, int], kind: int) -> socket.socket:
    """A client that asks and does not read, or sends a byte now and then."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    client.settimeout(20)
    client.connect(address)
    requests = (
        b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50,
        b"GET /static/vendor/uplot/uPlot.esm.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20,
        b"GET / HTTP/1.1\r\nHost: loc",
    )
    with suppress(OSError):
        client.sendall(requests[kind % len(requests)])
    return client


def test_200_slow_clients_for_a_minute(tmp_path: Path) -> None:
    for seed in range(20):
        make_run(tmp_path / f"run-{seed}", seed=seed)
    with dashboard(tmp_path) as url:
        split = urlsplit(url)
        address = (str(split.hostname), int(split.port or 0))
        server = next(
            process
            for process in psutil.Process().children(recursive=True)
            if "dash" in process.cmdline()
        )
        get_json(url + "api/runs")
        before = server.memory_info().rss
        clients = [attack(address, kind) for kind in range(CLIENTS)]
        answers = 0
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for client in clients[3::4]:
                with suppress(OSError):
                    client.sendall(b"x")
            assert len(get_json(url + "api/runs")["runs"]) == 20
            answers += 1
        grown_mb = (server.memory_info().rss - before) / 2**20
        connections = len(server.net_connections())
        for client in clients:
            client.close()
        print(f"{answers} answers, {grown_mb:.1f} MB more, {connections} connections at the end")
        assert grown_mb < MEMORY_MB
        assert len(get_json(url + "api/runs")["runs"]) == 20
