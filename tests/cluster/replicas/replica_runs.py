"""Runs of the real command with replicas, and what happens to their processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from briskrl.core.config import to_toml
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from tests.training.runs import policy_hash, small_config

ROOT = Path(__file__).parents[3]
PATIENCE_S = 300.0
MODULE = "briskrl.cluster.replicas.process"


def long_config(steps: int = 120_000, **options: Any) -> TrainConfig:
    """A run of two replicas with many checkpoints."""
    values = {"env": "cartpole", "num_envs": 32, "replicas": 2, "checkpoint_steps": 4000}
    values |= {"engine": "fused", **options}
    config = small_config(Path("unused"), "ppo", steps=steps, **values)
    return complete(config)


class Command:
    """`brisk` as a process."""

    def __init__(self, *words: str, folder: Path) -> None:
        self.folder = folder
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "briskrl", *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait(self) -> tuple[int, str]:
        """The exit code and what it has printed."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out + err

    def wait_for_checkpoint(self, before: str) -> None:
        """Return when there is another checkpoint than the one that was the newest."""
        end = time.monotonic() + PATIENCE_S
        while newest(self.folder) == before:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end
            time.sleep(0.002)

    def replicas(self) -> list[psutil.Process]:
        """The processes of the replicas, by rank."""
        found = []
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children():
                with suppress(psutil.NoSuchProcess):
                    if MODULE in child.cmdline():
                        found.append(child)
        return sorted(found, key=lambda process: process.pid)


def train(config: TrainConfig, folder: Path, *words: str) -> Command:
    """`brisk train` with these settings."""
    file = folder.with_suffix(".toml")
    file.write_text(to_toml(config))
    more = ("--config", str(file), "--run-dir", str(folder), *words)
    return Command("train", *more, folder=folder)


def resume(folder: Path, *words: str) -> Command:
    """`brisk resume` of a run."""
    return Command("resume", str(folder), *words, folder=folder)


def newest(folder: Path) -> str:
    """The name of the newest checkpoint."""
    with suppress(OSError):
        return (folder / "checkpoints" / "LATEST").read_text()
    return ""


def kill(process: psutil.Process) -> None:
    """SIGKILL."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)


def content(folder: Path) -> tuple[str, bytes]:
    """What must be the same in runs with the same settings."""
    return policy_hash(folder), (folder / "episodes.csv").read_bytes()
