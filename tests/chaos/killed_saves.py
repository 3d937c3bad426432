"""Run as a process: kills a save of a real run at each of its system calls.

Takes a folder and an algorithm. Prints one JSON object: the number of system calls, of different
states of the run folder that the kills left, of those that continue from the old and from the new
checkpoint, and of those that do not end like a run that was never killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from briskrl.training.loop import train
from briskrl.training.recorder import RunRecorder
from tests.chaos.run_states import SAVES, SaveAt, config, fingerprint, resumes_to, saved_step
from tests.training.storage.syscall_kills import killed_before

LOGS = ("metrics.jsonl", "episodes.csv", "phases.jsonl")


class DoneError(Exception):
    """All kills are done; the run under test need not go on."""


def copy(source: Path, target: Path) -> None:
    # Keeps hard links inside the folder.
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def content_hash(folder: Path) -> str:
    content = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        content.update(str(path.relative_to(folder)).encode())
        content.update(path.read_bytes() if path.is_file() else b"/")
    return content.hexdigest()


class KillSaves:
    """As a hook: at a step, saves again and again in forks that are killed, and keeps the rests."""

    def __init__(self, at: int, root: Path) -> None:
        self.at = at
        self.root = root
        self.calls = 0
        self.states: dict[str, Path] = {}

    def __call__(self, recorder: RunRecorder) -> None:
        if recorder.trainer.counters.env_steps < self.at:
            return
        folder, before = recorder.folder.path, self.root / "before"
        copy(folder, before)
        killed = True
        while killed:
            killed = killed_before(self.calls + 1, recorder.save)
            self.calls += 1
            self._keep(folder)
            restore(folder, before)
        raise DoneError

    def _keep(self, folder: Path) -> None:
        found = content_hash(folder)
        if found not in self.states:
            self.states[found] = self.root / f"state_{len(self.states)}"
            copy(folder, self.states[found])


def restore(folder: Path, before: Path) -> None:
    """Undo a save; the logs keep their inodes, which the run has opened."""
    for name in LOGS:
        os.truncate(folder / name, (before / name).stat().st_size)
    for name in ("checkpoints", "policy"):
        shutil.rmtree(folder / name)
        copy(before / name, folder / name)


def main(root: Path, preset: str) -> None:
    train(config(root / "whole", preset), hooks=[SaveAt(SAVES)])
    whole = fingerprint(root / "whole")
    kills = KillSaves(SAVES[-1], root)
    with suppress(DoneError):
        train(config(root / "run", preset), hooks=[SaveAt(SAVES[:-1]), kills])
    steps = [saved_step(state) for state in kills.states.values()]
    wrong = [path.name for path in kills.states.values() if not resumes_to(path, whole)]
    result = {
        "calls": kills.calls,
        "states": len(kills.states),
        "old": steps.count(SAVES[-2]),
        "new": steps.count(SAVES[-1]),
        "wrong": wrong,
    }
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
