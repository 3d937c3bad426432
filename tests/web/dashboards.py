"""A dashboard in a process of its own, and run folders to look at."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from briskrl.core.types import EpisodeStats
from briskrl.training.storage.metrics import MetricLog

CONFIG = 'env = "snake"\nalgo = "dqn"\nseed = {seed}\nsteps = {steps}\n\n[algo_config]\nlr = {lr}\n'


def make_run(
    folder: Path, *, seed: int = 0, lr: float = 1e-3, rows: int = 50, **status: Any
) -> Path:
    """A finished run whose logs were written by the real writer."""
    folder.mkdir(parents=True)
    steps = 1000 * rows
    (folder / "config.toml").write_text(CONFIG.format(seed=seed, lr=lr, steps=steps))
    facts = {"env_steps": steps, "total_steps": steps, "mean_score": 2.0 + seed, "updates": 10}
    speeds = {"steps_per_s": 5e4, "machine_fraction": 0.5, "wall_s": 20.0, "cpu_s": 18.0}
    (folder / "status.json").write_text(json.dumps({**facts, **speeds, **status}))
    meta = {"exit_reason": "finished", "final_score": 10.0 + seed, "host": "here"}
    (folder / "meta.json").write_text(json.dumps(meta))
    write_logs(folder, rows, seed)
    return folder


def write_logs(folder: Path, rows: int, seed: int = 0, first: int = 1) -> None:
    """Add rows of metrics, phases and episodes."""
    with MetricLog(folder, flush_s=1e9) as log:
        for row in range(first, first + rows):
            step = 1000 * row
            log.metrics(metric_row(step, seed))
            log.phases({"env_steps": step, "act": 0.1 * row, "update": 0.3 * row, "wait": 0.0})
            values = np.array([row % 7 + seed, row % 5], np.float64)
            log.episodes(
                step,
                EpisodeStats(
                    env=np.arange(2),
                    steps=np.full(2, 30),
                    returns=values * 10,
                    score=values,
                    won=np.zeros(2, np.int64),
                    cause=np.ones(2, np.int64),
                ),
            )


def metric_row(step: int, seed: int = 0) -> dict[str, float]:
    """A row as runs write it."""
    return {
        "env_steps": step,
        "wall_s": step / 5e4,
        "cpu_s": step / 6e4,
        "updates": step // 10,
        "steps_per_s": 5e4,
        "loss": 1.0 / step + seed,
        "epsilon": max(0.05, 1 - step / 4e4),
        "memory_mb": 300.0,
        "machine_fraction": 0.5,
    }


@contextmanager
def dashboard(*arguments: object) -> Iterator[str]:
    """The address of a dashboard, with a token if it has one."""
    command = [sys.executable, "-P", "-m", "briskrl", "dash", "--no-browser", "--port", "0"]
    process = subprocess.Popen(
        [*command, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert "http" in line, line + process.stdout.read()
        yield "http" + line.partition("http")[2].split()[0]
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def get_json(url: str, headers: Mapping[str, str] | None = None) -> Any:
    """What a route answers."""
    with urllib.request.urlopen(urllib.request.Request(url, headers=dict(headers or {}))) as answer:
        return json.load(answer)


def ids_of(url: str) -> dict[str, str]:
    """Ids of the runs by name."""
    return {run["name"]: run["id"] for run in get_json(url + "api/runs")["runs"]}
