"""How much of a core does the dashboard take to show an agent at play?

A client asks for states at a steady rate, as the page does: one request in a second of states, and
the next game as soon as one ends. CPU seconds are those of the server and of the player process.

    python benchmarks/play_cost.py runs/snake runs/cage2 --seconds 60 --rate 60
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import psutil

AHEAD_S = 2.0
"""How far ahead the page asks for states."""
SETTLE_S = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=60.0, help="states per second")
    args = parser.parse_args()
    for run in args.runs:
        measured = measure(run, seconds=args.seconds, rate=args.rate)
        print(json.dumps({"run": run.name, **measured}))


def measure(run: Path, *, seconds: float, rate: float) -> dict[str, float]:
    """States per second, and shares of a core."""
    command = [sys.executable, "-m", "briskrl", "dash", str(run), "--port", "0", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        port = int(server.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
        page = Page(port)
        page.play(rate, SETTLE_S)
        processes = [psutil.Process(server.pid), *psutil.Process(server.pid).children()]
        before, shown = [cpu_s(process) for process in processes], page.shown
        elapsed = page.play(rate, seconds)
        spent = [cpu_s(p) - start for p, start in zip(processes, before, strict=True)]
        return {
            "states_per_s": round((page.shown - shown) / elapsed, 1),
            "server_core_pct": round(100 * spent[0] / elapsed, 2),
            "player_core_pct": round(100 * sum(spent[1:]) / elapsed, 2),
            "player_mb": round(sum(p.memory_info().rss for p in processes[1:]) / 2**20),
        }
    finally:
        server.kill()
        server.wait()


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@dataclass
class Page:
    """What the play view does, without drawing."""

    port: int
    shown: int = 0
    """States shown in all games."""
    at: float = 0.0
    last: int = -1
    over: bool = False
    epoch: int = 0
    asked: int = 0
    episode: int = 0
    begun: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        (run,) = self.get("/api/runs")["runs"]
        started = self.get("/api/play/start", run=run["id"], seed=0, episode=0)
        self.session = started["session"]
        threading.Thread(target=self.listen, daemon=True).start()
        self.begun.wait()

    def play(self, rate: float, seconds: float) -> float:
        """Show states for so long; returns how long it took."""
        begin = before = time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            time.sleep(1 / 120)
            shown = int(self.at)
            self.at = min(self.at + (now - before) * rate, self.last)
            self.shown += int(self.at) - shown
            before = now
            self.ask_for_more(rate)
        return time.monotonic() - begin

    def ask_for_more(self, rate: float) -> None:
        ahead = AHEAD_S * rate
        if self.over and self.at >= self.last:
            self.begun.clear()
            self.episode += 1
            self.request("begin", seed=0, episode=self.episode)
            self.begun.wait()
        elif not self.over and self.at + ahead - self.asked >= ahead / 2:
            self.asked = int(self.at + ahead)
            self.request("want", epoch=self.epoch, shown=int(self.at), upto=self.asked)

    def request(self, name: str, **numbers: int) -> None:
        self.get(f"/api/play/{self.session}/{name}", **numbers)

    def get(self, path: str, **params: object) -> Any:
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", urlsplit(path)._replace(query=urlencode(params)).geturl())
        found = json.loads(connection.getresponse().read())
        connection.close()
        return found

    def listen(self) -> None:
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", f"/api/play/{self.session}/events")
        name = ""
        for line in connection.getresponse():
            if line.startswith(b"event: "):
                name = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                self.receive(name, json.loads(line[6:]))

    def receive(self, name: str, data: Any) -> None:
        if name == "game":
            self.at, self.last, self.asked, self.over = 0.0, -1, 0, False
            self.epoch = data["epoch"]
        elif name == "states":
            states = data["states"]
            self.last = data["from"] + len(states) - 1
            self.over = "end" in states[-1]
            self.begun.set()


if __name__ == "__main__":
    main()
