"""The small files of a run folder, read for a list: whatever their condition, nothing is raised.

A file that is not what a run writes counts as missing, and `damaged` names it.
"""

from __future__ import annotations

import json
import math
import os
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from briskrl.core.processes import process_exists
from briskrl.training.storage.own_files import read_regular

CONFIG, STATUS, META, LOCK = "config.toml", "status.json", "meta.json", "lock"
LATEST = "checkpoints/LATEST"
_FILES = ("metrics.jsonl", "episodes.csv", "phases.jsonl")
_FOLDERS = ("checkpoints", "policy")
_MAX_COUNT = 2**63


class RunFiles:
    """Facts from the files of one run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._damaged: set[str] = set()
        self._tables = {
            CONFIG: self._read(CONFIG, _parse_toml),
            STATUS: self._read(STATUS, json.loads),
            META: self._read(META, json.loads),
            # A lock is empty while nobody holds it.
            LOCK: self._read(LOCK, lambda data: json.loads(data or b"{}")),
        }
        if not {"env", "algo"} <= self._tables[CONFIG].keys():
            self._damaged.add(CONFIG)
        self._check_others()

    @property
    def damaged(self) -> list[str]:
        """Names of the files that are not what a run writes, as far as they have been looked at."""
        return sorted(self._damaged)

    def has(self, file: str) -> bool:
        """Whether the file is there and holds anything that can be read."""
        return bool(self._tables[file])

    def table(self, file: str) -> dict[str, Any]:
        """Everything in a file; empty if it cannot be read."""
        return self._tables[file]

    def text(self, file: str, key: str) -> str | None:
        """A text in a file; None if there is none."""
        value = self._value(file, key, lambda value: isinstance(value, str))
        return None if value is None else str(value)

    def count(self, file: str, key: str) -> int | None:
        """A number of steps or a process in a file; None if there is none."""
        value = self._value(file, key, _is_count)
        return None if value is None else int(value)

    def number(self, file: str, key: str) -> float | None:
        """A finite number in a file; None if there is none."""
        value = self._value(file, key, _is_finite)
        return None if value is None else float(value)

    def best_score(self) -> float | None:
        """The score of the best evaluation during training; None if there was none."""
        best = self._tables[STATUS].get("best_evaluation")
        score = best.get("mean_score") if isinstance(best, dict) else None
        return float(score) if score is not None and _is_finite(score) else None

    def is_locked(self) -> bool:
        """Whether the owner of the lock is alive; acquiring it could stop a run that starts."""
        pid, host = self.count(LOCK, "pid"), self.text(LOCK, "host")
        if pid is None:
            return False
        return host != socket.gethostname() or process_exists(pid)

    def age_s(self) -> float:
        """Seconds since the run wrote its status, or its config if it has no status."""
        try:
            newest = self.folder / (STATUS if self.has(STATUS) else CONFIG)
            return max(0.0, time.time() - newest.lstat().st_mtime)
        except OSError:
            return 0.0

    def _read(self, name: str, parse: Callable[[bytes], Any]) -> dict[str, Any]:
        try:
            content = parse(read_regular(self.folder / name))
        except FileNotFoundError:
            # A link to nowhere is a file that cannot be read, too.
            if (self.folder / name).is_symlink():
                self._damaged.add(name)
            return {}
        except (OSError, ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            self._damaged.add(name)
            return {}
        return content

    def _value(self, file: str, key: str, fits: Callable[[Any], bool]) -> Any:
        value = self._tables[file].get(key)
        if value is None or fits(value):
            return value
        self._damaged.add(file)
        return None

    def _check_others(self) -> None:
        """Check what kind of things the larger files are, and that the newest checkpoint exists."""
        for names, is_kind in ((_FILES, stat.S_ISREG), (_FOLDERS, stat.S_ISDIR)):
            for name in names:
                mode = _mode(self.folder / name)
                if mode is not None and not is_kind(mode):
                    self._damaged.add(name)
        if _mode(self.folder / LATEST) is None:
            return
        try:
            newest = read_regular(self.folder / LATEST, limit=100).decode("ascii").strip()
            intact = newest.startswith("step_") and (self.folder / "checkpoints" / newest).is_dir()
        except (OSError, ValueError):
            intact = False
        if not intact:
            self._damaged.add(LATEST)


def _parse_toml(data: bytes) -> Any:
    import tomllib

    return tomllib.loads(data.decode("utf-8"))


def _mode(path: Path) -> int | None:
    """The kind of what is at the path, links not followed; None if nothing is."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_COUNT


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return _is_count(value) or (isinstance(value, int) and _is_count(-value))
