"""Run as a process: trains while its disk fills up, becomes read-only or loses its permissions.

Takes a folder and names of faults, and prints one JSON object with what happened for each. Small
disks are mounted, so it needs a mount namespace of its own: run it with `unshare -m`.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from briskrl.core.errors import BriskError
from briskrl.training.loop import resume, train
from briskrl.training.recorder import RunRecorder
from briskrl.training.reporter import SilentReporter
from briskrl.training.storage.checkpoint import list_checkpoints, read_newest
from briskrl.training.storage.line_files import read_jsonl
from tests.training.runs import policy_hash, small_config

NOBODY = 65534
BEGINS, ENDS = 1000, 2000
"""Steps of the run between which the fault lasts."""
OPTIONS = {"checkpoint_steps": 160, "log_seconds": 0.02}


class Notes(SilentReporter):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def on_note(self, text: str) -> None:
        self.notes.append(text)


class Fault:
    """Damages the disk of a run between two steps; `ends` is None if it lasts to the end."""

    def __init__(
        self, begin: Callable[[Path], None], end: Callable[[Path], None], *, ends: int | None
    ) -> None:
        self.begin, self.end, self.ends = begin, end, ends
        self.active = False
        self.newest = ""

    def __call__(self, recorder: RunRecorder) -> None:
        step, folder = recorder.trainer.counters.env_steps, recorder.folder.path
        if not self.active and step >= BEGINS and (self.ends is None or step < self.ends):
            self.newest = list_checkpoints(folder / "checkpoints")[0].name
            self.begin(folder)
            self.active = True
        elif self.active and self.ends is not None and step >= self.ends:
            self.stop(folder)

    def stop(self, folder: Path) -> None:
        if self.active:
            self.end(folder)
            self.active = False


def mount(folder: Path, size: str) -> None:
    folder.mkdir(parents=True)
    run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def fill(folder: Path) -> None:
    """Write to the disk until nothing fits any more, not even a small file."""
    for size in (1 << 16, 1):
        with (
            contextlib.suppress(OSError),
            (folder.parent / f"filler_{size}").open("wb", buffering=0) as file,
        ):
            while True:
                file.write(bytes(size))


def unfill(folder: Path) -> None:
    for file in folder.parent.glob("filler_*"):
        file.unlink()


def make_read_only(folder: Path) -> None:
    run("mount", "--bind", str(folder), str(folder))
    run("mount", "-o", "remount,bind,ro", str(folder))


def make_writable(folder: Path) -> None:
    run("umount", str(folder))


def lose_permission(folder: Path) -> None:
    folder.chmod(0o555)
    (folder / "checkpoints").chmod(0o555)
    if os.getuid() == 0:
        # No permission stops root.
        os.seteuid(NOBODY)


def regain_permission(folder: Path) -> None:
    if os.getuid() == 0:
        os.seteuid(0)
    folder.chmod(0o755)
    (folder / "checkpoints").chmod(0o755)


FAULTS = {
    "full": lambda: Fault(fill, unfill, ends=ENDS),
    "full_to_the_end": lambda: Fault(fill, unfill, ends=None),
    "read_only": lambda: Fault(make_read_only, make_writable, ends=ENDS),
    "read_only_to_the_end": lambda: Fault(make_read_only, make_writable, ends=None),
    "permission": lambda: Fault(lose_permission, regain_permission, ends=ENDS),
    "permission_to_the_end": lambda: Fault(lose_permission, regain_permission, ends=None),
}


def attempt(action: Callable[[], object]) -> str:
    """The message of the error that the user gets, or an empty string."""
    try:
        action()
    except BriskError as error:
        return f"{type(error).__name__} {error.exit_code}: {error}"
    return ""


def inspect(folder: Path) -> dict[str, object]:
    """Whether the files of a run can be read, and what they hold."""
    with (folder / "episodes.csv").open(newline="") as file:
        widths = {len(row) for row in csv.reader(file)}
    saved = read_newest(folder / "checkpoints")
    return {
        "widths": sorted(widths),
        "metrics": len(list(read_jsonl(folder / "metrics.jsonl"))),
        "phases": len(list(read_jsonl(folder / "phases.jsonl"))),
        "saved": saved.path.name,
        "damage": saved.notes,
        "leftovers": [path.name for path in folder.rglob(".tmp-*")],
    }


def fingerprint(folder: Path) -> list[str]:
    return [policy_hash(folder), (folder / "episodes.csv").read_text()]


def with_fault(root: Path, name: str, whole: list[str]) -> dict[str, object]:
    """Train with a fault, then without; whatever happened, the end is that of a whole run."""
    fault, reporter = FAULTS[name](), Notes()
    if not name.startswith("permission"):
        mount(root / name, "16m")
    folder = root / name / "run"
    config = small_config(folder, **OPTIONS)
    message = attempt(lambda: train(config, reporter=reporter, hooks=[fault]))
    result: dict[str, object] = {"message": message, "notes": reporter.notes}
    result["before_fault"] = fault.newest
    fault.stop(folder)
    result |= inspect(folder)
    result["resumed"] = attempt(lambda: resume(folder)) if message else ""
    result["same"] = fingerprint(folder) == whole
    return result


def on_small_disk(root: Path, size: str, whole: list[str]) -> dict[str, object]:
    """Train on a disk of this size, then enlarge it and continue."""
    mount(root / size, size)
    folder, reporter = root / size / "run", Notes()
    config = small_config(folder, **OPTIONS)
    message = attempt(lambda: train(config, reporter=reporter))
    result: dict[str, object] = {"message": message, "notes": reporter.notes, "resumed": ""}
    started = (folder / "config.toml").exists()
    if list_checkpoints(folder / "checkpoints"):
        result |= inspect(folder)
    run("mount", "-o", "remount,size=16m", str(root / size))
    if message and started:
        result["resumed"] = attempt(lambda: resume(folder))
    result["started"] = started
    result["same"] = fingerprint(folder) == whole if started else None
    return result


def main(root: Path, names: list[str]) -> None:
    train(small_config(root / "whole", **OPTIONS))
    whole = fingerprint(root / "whole")
    results = {
        name: with_fault(root, name, whole) if name in FAULTS else on_small_disk(root, name, whole)
        for name in names
    }
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
