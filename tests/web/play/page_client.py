"""What the page does, without a browser: requests, and the events of a session."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlencode

PATIENCE_S = 240.0


def _python_path() -> str:
    given = os.environ.get("PYTHONPATH")
    return os.pathsep.join(filter(None, [str(Path(__file__).parents[3]), given]))


class Server:
    """`brisk dash` over a folder of runs, as a process of its own."""

    def __init__(self, roots: Path, *options: str) -> None:
        command = [sys.executable, "-m", "briskrl", "dash", str(roots)]
        self.process = subprocess.Popen(
            [*command, "--port", "0", "--no-browser", *options],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": _python_path()},
        )
        assert self.process.stdout is not None
        greeting = self.process.stdout.readline()
        found = re.search(r"http://([\w.]+):(\d+)/", greeting)
        assert found, greeting
        self.host, self.port = found[1], int(found[2])
        self.url = found[0]

    def get(self, path: str, method: str = "GET", **params: object) -> tuple[int, dict]:
        """Status and JSON of a route."""
        connection = HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        query = f"?{urlencode(params)}" if params else ""
        connection.request(method, f"{quote(path)}{query}")
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, json.loads(body) if body else {}

    def run_id(self, name: str) -> str:
        """The id of a run."""
        _, body = self.get("/api/runs")
        return next(row["id"] for row in body["runs"] if row["name"] == name)

    def close(self) -> None:
        """End the server."""
        self.process.terminate()
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Watcher:
    """A page that watches one session."""

    def __init__(self, server: Server, run: str, **choice: object) -> None:
        self.server = server
        wanted = {"policy": "newest", "seed": 0, "episode": 0, **choice}
        status, body = server.get("/api/play/start", run=server.run_id(run), **wanted)
        assert status == 200, body
        self.id = body["session"]
        self._events: queue.Queue[tuple[str, dict] | None] = queue.Queue()
        self._connection = HTTPConnection(server.host, server.port, timeout=PATIENCE_S)
        self._connection.request("GET", f"/api/play/{self.id}/events")
        self._response = self._connection.getresponse()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def event(self, *names: str) -> dict:
        """The next event of one of these names; others are dropped."""
        while True:
            found = self._events.get(timeout=PATIENCE_S)
            assert found is not None, f"the stream ended before {names}"
            if found[0] in names:
                return found[1]
            assert found[0] != "failed", found[1]

    def event_or_failure(self, *names: str) -> dict:
        """The next failure, or event of one of these names."""
        while True:
            found = self._events.get(timeout=PATIENCE_S)
            assert found is not None, "the stream ended"
            if found[0] in ("failed", *names):
                return found[1]

    def ended(self) -> bool:
        """Wait for the end of the stream."""
        while self._events.get(timeout=PATIENCE_S) is not None:
            pass
        return True

    def ask(self, request: str, **numbers: object) -> tuple[int, dict]:
        """Ask the player for something."""
        return self.server.get(f"/api/play/{self.id}/{request}", **numbers)

    def answer(self, request: str, **numbers: object) -> dict:
        """The answer of a request that must succeed."""
        status, body = self.ask(request, **numbers)
        assert status == 200, body
        return body

    def states(self, upto: int, *, epoch: int = 1) -> list[dict]:
        """The first states of a game, at most `upto` + 1; fewer if it ends before."""
        found: list[dict] = []
        while True:
            batch = self.event("states")
            if batch["epoch"] != epoch:
                continue
            assert batch["from"] == len(found)
            found += batch["states"]
            if len(found) > upto or "end" in found[-1]:
                return found
            if len(found) == 1:
                self.answer("want", epoch=epoch, shown=0, upto=upto)

    def whole_game(self, *, epoch: int = 1) -> list[dict]:
        """All states of a game."""
        found: list[dict] = []
        while not found or "end" not in found[-1]:
            batch = self.event("states")
            assert (batch["epoch"], batch["from"]) == (epoch, len(found))
            found += batch["states"]
            shown = len(found) - 1
            self.answer("want", epoch=epoch, shown=shown, upto=shown + 60)
        return found

    def hang_up(self) -> None:
        """Close the page without a word."""
        if self._connection.sock is not None:
            self._connection.sock.close()
        self._response.close()
        self._connection.close()

    def _listen(self) -> None:
        name = ""
        try:
            for line in self._response:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    name = text.removeprefix("event: ")
                elif text.startswith("data: "):
                    self._events.put((name, json.loads(text.removeprefix("data: "))))
        except (OSError, ValueError, AttributeError):
            pass
        self._events.put(None)


@contextmanager
def watching(server: Server, run: str, **choice: object) -> Iterator[Watcher]:
    """A session that ends with the block."""
    watcher = Watcher(server, run, **choice)
    try:
        yield watcher
    finally:
        watcher.ask("leave")
        watcher.hang_up()


def described(folder: Path, **changes: object) -> None:
    """Change the description of a run's policy."""
    file = folder / "policy" / "policy.json"
    content = json.loads(file.read_text())
    content["description"] |= changes
    file.write_text(json.dumps(content))
