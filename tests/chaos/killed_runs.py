"""Kill a run at random moments and resume it until it is done; count what the kills hit."""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from briskrl.training.storage.atomic_files import TEMPORARY
from briskrl.training.storage.line_files import read_jsonl
from tests.chaos.run_server import FINISHED_BEFORE

ROOT = Path(__file__).parents[2]
STARTUP_SHARE = 0.25
"""Share of the kills that aim at the time before the first iteration."""
REACH = 0.2
"""Other kills come within this share of the whole training time, so that it takes several."""
PATIENCE_S = 300.0
"""A run that neither passes a stage nor ends for this long hangs."""
CLOCKS = {
    "wall_s",
    "cpu_s",
    "memory_mb",
    "steps_per_s",
    "eta_s",
    "achieved_gflops",
    "machine_fraction",
}
"""Columns of the metrics that depend on the time."""


class RunServer:
    """A `tests.chaos.run_server` of one case; ends with the context."""

    def __init__(self, case: str, folder: Path | None = None) -> None:
        command = [sys.executable, "-m", "tests.chaos.run_server", case]
        command += [] if folder is None else [str(folder)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        self._buffer = b""
        assert self.receive(PATIENCE_S) == {"stage": "ready"}

    def __enter__(self) -> RunServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        assert self._process.wait(PATIENCE_S) == 0

    def start(self, run_dir: Path) -> None:
        self._write(str(run_dir))

    def kill(self) -> None:
        self._write("kill")

    def receive(self, timeout_s: float) -> dict[str, Any] | None:
        """The next message; None if there is none in time."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        end = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            left = max(0.0, end - time.monotonic())
            if not select.select([descriptor], [], [], left)[0]:
                return None
            data = os.read(descriptor, 65536)
            assert data, "the server of the runs has ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()


@dataclass
class Outcome:
    """How one process of a run ended."""

    exit_code: int
    stages: list[str]
    """Stages it passed."""
    seconds: dict[str, float]
    """Time from the start to each stage, and to the "end"."""


def follow(server: RunServer, run_dir: Path, *, at: str = "", delay_s: float = 0.0) -> Outcome:
    """Start or continue a run; kill it `delay_s` after the stage `at`, or let it end."""
    begin = time.monotonic()
    server.start(run_dir)
    stages: list[str] = []
    seconds: dict[str, float] = {}
    kill_at = begin + delay_s if at == "start" else None
    while True:
        wait_s = PATIENCE_S if kill_at is None else max(0.0, kill_at - time.monotonic())
        message = server.receive(wait_s)
        now = time.monotonic()
        if message is None:
            assert kill_at is not None, f"{run_dir} hangs after {stages}"
            server.kill()
            kill_at = None
        elif "exit" in message:
            seconds["end"] = now - begin
            return Outcome(message["exit"], stages, seconds)
        else:
            stages.append(message["stage"])
            seconds.setdefault(message["stage"], now - begin)
            if message["stage"] == at:
                kill_at = now + delay_s


@dataclass
class Tally:
    """What the kills of one case hit."""

    kills: Counter[str] = field(default_factory=Counter)
    """By stage."""
    saves: int = 0
    """Kills that left an unfinished checkpoint."""
    runs: int = 0
    """Runs that were finished and compared."""

    def describe(self) -> str:
        stages = ", ".join(f"{count} in {stage}" for stage, count in sorted(self.kills.items()))
        return f"{self.kills.total()} kills ({stages}; {self.saves} in a save), {self.runs} runs"


class Killer:
    """Kills one run again and again, at moments that a seed determines."""

    def __init__(self, server: RunServer, whole: Outcome, seed: str) -> None:
        self.tally = Tally()
        self._server = server
        self._random = random.Random(seed)
        self._startup_s = whole.seconds["training"]
        self._training_s = whole.seconds["end"] - whole.seconds["training"]

    def kill_until_done(self, run_dir: Path, *, kills: int) -> bool:
        """Kill and resume until the run is done or `kills` have happened; returns which."""
        while self.tally.kills.total() < kills:
            if self._is_over(self._kill_once(run_dir), run_dir):
                return True
        return False

    def _kill_once(self, run_dir: Path) -> Outcome:
        if self._random.random() < STARTUP_SHARE:
            delay_s = self._random.uniform(0.0, self._startup_s)
            return follow(self._server, run_dir, at="start", delay_s=delay_s)
        delay_s = self._random.uniform(0.0, REACH * self._training_s)
        return follow(self._server, run_dir, at="training", delay_s=delay_s)

    def _is_over(self, outcome: Outcome, run_dir: Path) -> bool:
        if outcome.exit_code != -9:
            assert outcome.exit_code in (0, FINISHED_BEFORE)
            self.tally.runs += 1
            return True
        self.tally.kills[outcome.stages[-1] if outcome.stages else "startup"] += 1
        self.tally.saves += any(run_dir.glob(f"checkpoints/{TEMPORARY}step_*"))
        if run_dir.exists() and not (run_dir / "config.toml").exists():
            # Killed between the creation of the folder and its first file: there is no run yet.
            shutil.rmtree(run_dir)
        return False


def metric_rows(run_dir: Path) -> list[dict[str, Any]]:
    """The rows of the metrics without the columns that depend on the time."""
    return [
        {name: value for name, value in row.items() if name not in CLOCKS}
        for row in read_jsonl(run_dir / "metrics.jsonl")
    ]


def assert_same_run(run_dir: Path, whole: Path) -> None:
    """Parameters, episodes and metrics are those of the uninterrupted run."""
    for name in ("policy/model.safetensors", "episodes.csv", "checkpoints/LATEST"):
        assert (run_dir / name).read_bytes() == (whole / name).read_bytes(), name
    assert metric_rows(run_dir) == metric_rows(whole)
