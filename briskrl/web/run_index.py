"""The runs and sweeps that the page shows, found under a few folders and known by ids.

Nothing is ever written. A run is read again only when one of its small files has changed, so that
looking often is cheap: runs in training are looked at with every scan, the others now and then.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from briskrl.training.storage.run_facts import facts_of
from briskrl.training.storage.run_files import CONFIG, LOCK, META, STATUS, RunFiles

SWEEP_TOML, LEDGER = "sweep.toml", "trials.jsonl"
SMALL_FILES = (CONFIG, STATUS, META, LOCK)
LOG_FILES = ("metrics.jsonl", "episodes.csv", "phases.jsonl", "evaluations.jsonl")
REPORT = "doctor/report.json"
DEPTH = 4
"""How deep runs are searched for below a folder."""
MOST_RUNS = 20_000
SETTLED_S = 5.0
"""Seconds between two looks at everything; runs in training are looked at more often."""
SILENT_S = 600.0
"""A run of another machine that has written nothing for this long is not called running."""


@dataclass(slots=True)
class Entry:
    """One known run."""

    id: str
    folder: Path
    name: str
    """Its path below the folder that is served."""
    sweep: str | None
    signature: tuple[int, ...] = ()
    data_signature: tuple[int, ...] = ()
    row: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    version: int = 0
    """Number of the scan that last changed the row."""
    data_version: int = 0
    """Number of the scan that last found the logs grown."""


class RunIndex:
    """The known runs; safe to use from several threads."""

    def __init__(self, roots: Sequence[Path]) -> None:
        """Search below these folders; none of them has to exist yet."""
        self.roots = [Path(os.path.abspath(root)) for root in roots]
        self.version = 0
        """Grows with every scan that has found a change."""
        self._entries: dict[str, Entry] = {}
        self._sweeps: dict[str, Path] = {}
        self._removed: dict[str, int] = {}
        self._searched_at = -SETTLED_S
        self._lock = threading.Lock()

    def folder(self, run_id: str) -> Path | None:
        """The folder of a run; None if no run has this id."""
        entry = self._entries.get(run_id)
        return None if entry is None else entry.folder

    def entry(self, run_id: str) -> Entry | None:
        """Everything known about a run; None if no run has this id."""
        return self._entries.get(run_id)

    def entries(self) -> list[Entry]:
        """All known runs."""
        return list(self._entries.values())

    def sweep_folders(self) -> dict[str, Path]:
        """The known sweeps by id."""
        return dict(self._sweeps)

    def changes_since(self, version: int) -> tuple[list[dict[str, Any]], list[str]]:
        """Rows that have changed since, and ids of runs that are gone."""
        rows = [entry.row for entry in self.entries() if entry.version > version]
        return rows, [run_id for run_id, gone in self._removed.items() if gone > version]

    def scan(self) -> bool:
        """Look at the folders; returns whether anything has changed."""
        with self._lock:
            version = self.version + 1
            everything = time.monotonic() - self._searched_at >= SETTLED_S
            changed = self._search(version) if everything else False
            for entry in self.entries():
                if everything or entry.row["status"] == "running":
                    changed |= _refresh(entry, version)
            if changed:
                self.version = version
            return changed

    def _search(self, version: int) -> bool:
        """Find runs that are new or gone."""
        found = {entry.id: entry for root in self.roots for entry in self._walk(root, root)}
        gone = self._entries.keys() - found.keys()
        new = found.keys() - self._entries.keys()
        for run_id in new:
            _refresh(found[run_id], version)
            self._removed.pop(run_id, None)
        for run_id in gone:
            self._removed[run_id] = version
        kept = {run_id: entry for run_id, entry in self._entries.items() if run_id not in gone}
        # Replaced as a whole: other threads may be going through the old one.
        self._entries = kept | {run_id: found[run_id] for run_id in new}
        self._searched_at = time.monotonic()
        return bool(new or gone)

    def _walk(self, root: Path, top: Path) -> Iterator[Entry]:
        if top == self.roots[0]:
            self._sweeps = {}
        stack: list[tuple[Path, int, str | None]] = [(root, 0, None)]
        found = 0
        while stack and found < MOST_RUNS:
            folder, depth, sweep = stack.pop()
            if os.path.lexists(folder / CONFIG):
                found += 1
                yield _entry(folder, root, sweep)
                continue
            if os.path.lexists(folder / SWEEP_TOML):
                sweep = id_of(folder)
                self._sweeps[sweep] = folder
            if depth < DEPTH:
                stack += [(child, depth + 1, sweep) for child in _folders(folder)]


def id_of(folder: Path) -> str:
    """The id of a folder: the same in every session, and no path."""
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]


def _entry(folder: Path, root: Path, sweep: str | None) -> Entry:
    below = folder.relative_to(root).as_posix()
    return Entry(id_of(folder), folder, folder.name if below == "." else below, sweep)


def _folders(folder: Path) -> list[Path]:
    """Subfolders; links are not followed, because they could lead in circles."""
    try:
        with os.scandir(folder) as found:
            names = [
                item.name
                for item in found
                if not item.name.startswith(".") and item.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []
    return [folder / name for name in names]


def _refresh(entry: Entry, version: int) -> bool:
    """Read a run again if its files have changed; returns whether its row has."""
    base = str(entry.folder)
    signature = tuple(n for name in SMALL_FILES for n in _signature(f"{base}/{name}"))
    data = tuple(n for name in (*LOG_FILES, REPORT) for n in _signature(f"{base}/{name}"))
    if data != entry.data_signature:
        entry.data_signature, entry.data_version = data, version
    # A process that was killed leaves its lock as it was.
    elif signature == entry.signature and entry.row.get("status") != "running":
        return False
    entry.signature = signature
    files = RunFiles(entry.folder)
    row = _row(entry, files)
    if row == entry.row:
        return False
    entry.row, entry.version = row, version
    return True


def _signature(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return (0, 0)
    return (found.st_mtime_ns, found.st_size) if stat.S_ISREG(found.st_mode) else (1, 0)


def _row(entry: Entry, files: RunFiles) -> dict[str, Any]:
    """What the table shows; times are points in time, so that rows at rest do not change."""
    facts = facts_of(files)
    entry.settings = facts.pop("settings")
    changed_at = time.time() - facts.pop("age_s")
    owner = files.text(LOCK, "host")
    if facts["status"] == "running" and owner is not None and _is_silent(owner, changed_at):
        facts["status"] = "silent"
    return {
        "id": entry.id,
        **facts,
        "name": entry.name,
        "sweep": entry.sweep,
        "seed": files.count(CONFIG, "seed"),
        "episodes": files.count(STATUS, "episodes"),
        "updates": files.count(STATUS, "updates"),
        "steps_per_s": files.number(STATUS, "steps_per_s"),
        "machine_fraction": files.number(STATUS, "machine_fraction"),
        "wall_s": files.number(STATUS, "wall_s"),
        "cpu_s": files.number(STATUS, "cpu_s"),
        "host": files.text(META, "host") or owner,
        "changed_at": round(changed_at, 0),
        "has_doctor": (entry.folder / REPORT).is_file(),
        "data_version": entry.data_version,
        "damaged": files.damaged,
    }


def _is_silent(owner: str, changed_at: float) -> bool:
    """Whether the process belongs to another machine, and the folder may be an old copy."""
    import socket

    return owner != socket.gethostname() and time.time() - changed_at > SILENT_S
