"""`brisk runs`: list the run folders and their progress."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from briskrl.cli.flags import Parser
from briskrl.cli.targets import RUNS, run_folders
from briskrl.core.errors import RunFolderError
from briskrl.core.format import format_columns, format_count, format_duration, format_score

EXAMPLES = """\
examples:
  brisk runs
  brisk runs --root elsewhere --json

The status is running, finished, sigint or sigterm (stopped by a signal and saved), an error, killed
(no checkpoint at the end) or empty. `brisk resume RUN` continues any run that is not running."""


def run(argv: list[str]) -> int:
    """List the runs, newest first."""
    parser = Parser("brisk runs", "List the run folders, newest first.", EXAMPLES)
    parser.usage = "brisk runs [--root FOLDER] [--json]"
    parser.add_argument(
        "--root", default=str(RUNS), metavar="FOLDER", help="folder that holds the runs [runs]"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse(argv)
    root = Path(args.root)
    if root != RUNS and not root.is_dir():
        raise RunFolderError(f"There is no folder {root}.")
    found = [describe_run(folder) for folder in run_folders(root)]
    if args.json:
        print(json.dumps({"runs": found}))
    elif found:
        print(_table(found))
    else:
        print(f"No runs in {root}. Start one with: brisk train snake")
    return 0


def describe_run(folder: Path) -> dict[str, Any]:
    """Facts from the small files of a run folder; unreadable files count as missing."""
    config = _read_toml(folder / "config.toml")
    status, meta = _read_json(folder / "status.json"), _read_json(folder / "meta.json")
    newest = folder / "status.json" if status else folder / "config.toml"
    return {
        "name": folder.name,
        "run_dir": str(folder),
        "env": config.get("env"),
        "algo": config.get("algo"),
        "env_steps": status.get("env_steps", 0),
        "total_steps": status.get("total_steps", config.get("steps")),
        "mean_score": status.get("mean_score"),
        "status": _status(folder, status, meta),
        "age_s": max(0.0, time.time() - newest.stat().st_mtime),
    }


def _status(folder: Path, status: dict[str, Any], meta: dict[str, Any]) -> str:
    """`running` while a process holds the lock, otherwise why the last process ended."""
    if _is_locked(folder / "lock"):
        return "running"
    reason = meta.get("exit_reason")
    if isinstance(reason, str):
        return reason
    return "killed" if status or meta else "empty"


def _is_locked(path: Path) -> bool:
    """Whether the owner of the lock is alive; acquiring the lock could stop a run that starts."""
    owner = _read_json(path)
    pid = owner.get("pid")
    if not isinstance(pid, int) or pid <= 0:
        return False
    if owner.get("host") != socket.gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _steps(run: dict[str, Any]) -> str:
    """Steps done, and the total if the run has one."""
    total = "" if run["total_steps"] is None else f"/{format_count(run['total_steps'])}"
    return f"{format_count(run['env_steps'])}{total}"


def _table(found: list[dict[str, Any]]) -> str:
    head = ("run", "env", "algo", "steps", "score", "status", "age")
    rows = [
        (
            run["run_dir"],
            run["env"] or "?",
            run["algo"] or "?",
            _steps(run),
            format_score(run["mean_score"]),
            run["status"],
            format_duration(run["age_s"]),
        )
        for run in found
    ]
    return format_columns([head, *rows], indent="")
