"""Files of a run folder that the page shows, each under a fixed name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from briskrl.core.errors import BriskError
from briskrl.core.types import JSON
from briskrl.training.storage.checkpoint import list_checkpoints
from briskrl.training.storage.own_files import read_regular
from briskrl.training.storage.strict_json import read_json

TEXTS = {
    "config": "config.toml",
    "notes": "notes.md",
    "status": "status.json",
    "meta": "meta.json",
}
"""Files that are shown as text, by the key in the address."""
MOST_TEXT = 400_000
LOGS = ("metrics.jsonl", "episodes.csv", "phases.jsonl", "evaluations.jsonl")
REPORT = "doctor/report.json"


def describe_files(folder: Path) -> dict[str, Any]:
    """What is in a run folder: texts, logs, checkpoints and policies, with sizes."""
    return {
        "run_dir": str(folder),
        "texts": _sizes(folder, list(TEXTS.values()), keys=list(TEXTS)),
        "logs": _sizes(folder, LOGS, keys=LOGS),
        "checkpoints": _checkpoints(folder),
        "policies": [
            {"name": name, **_measure(folder / name)}
            for name in ("policy", "best_policy")
            if (folder / name).is_dir()
        ],
    }


def read_text(folder: Path, key: str) -> str | None:
    """The text of a file; None if there is no such file, or it cannot be read."""
    if key not in TEXTS:
        return None
    try:
        content = read_regular(folder / TEXTS[key], limit=MOST_TEXT)
    except (OSError, ValueError):
        return None
    return content.decode("utf-8", errors="replace")


def read_report(folder: Path) -> JSON:
    """The report of the doctor; None if there is none that can be read."""
    try:
        report = read_json(folder / REPORT)
    except (OSError, ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) else None


def _sizes(folder: Path, names: Sequence[str], *, keys: Sequence[str]) -> list[dict[str, Any]]:
    found = []
    for key, name in zip(keys, names, strict=True):
        try:
            status = (folder / name).stat()
        except OSError:
            continue
        found.append(
            {"key": key, "name": name, "bytes": status.st_size, "changed_at": status.st_mtime}
        )
    return found


def _checkpoints(folder: Path) -> list[dict[str, Any]]:
    try:
        paths = list_checkpoints(folder / "checkpoints")
    except (BriskError, OSError):
        return []
    return [{"name": path.name, **_measure(path)} for path in paths]


def _measure(folder: Path) -> dict[str, Any]:
    """Bytes in a folder, and when it was changed."""
    total, changed = 0, 0.0
    try:
        changed = folder.stat().st_mtime
        for path in folder.iterdir():
            total += path.lstat().st_size
    except OSError:
        # Replaced by a newer one meanwhile.
        return {"bytes": total, "changed_at": changed}
    return {"bytes": total, "changed_at": changed}
