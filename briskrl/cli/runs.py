"""`brisk runs`: list the run folders and their progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from briskrl.cli.flags import Parser
from briskrl.cli.output import print_json
from briskrl.cli.run_files import CONFIG, META, STATUS, RunFiles
from briskrl.cli.targets import RUNS, run_folders
from briskrl.core.errors import RunFolderError
from briskrl.core.format import format_columns, format_count, format_duration, format_score

EXAMPLES = """\
examples:
  brisk runs
  brisk runs --root elsewhere --json

The status is running, finished, sigint, sigterm or sighup (stopped by a signal and saved), an
error, killed (no checkpoint at the end) or empty. `brisk resume RUN` continues any run that is not
running. Files that cannot be read, and a checkpoint that is gone, are named as damaged."""


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
        print_json({"runs": found})
    elif found:
        print(_table(found))
    else:
        print(f"No runs in {root}. Start one with: brisk train snake")
    return 0


def describe_run(folder: Path) -> dict[str, Any]:
    """Facts from the small files of a run folder; those that cannot be read are in `damaged`."""
    files = RunFiles(folder)
    total = files.count(STATUS, "total_steps")
    facts = {
        "name": folder.name,
        "run_dir": str(folder),
        "env": files.text(CONFIG, "env"),
        "algo": files.text(CONFIG, "algo"),
        "env_steps": files.count(STATUS, "env_steps") or 0,
        "total_steps": files.count(CONFIG, "steps") if total is None else total,
        "mean_score": files.number(STATUS, "mean_score"),
        "status": _status(files),
        "age_s": files.age_s(),
    }
    return {**facts, "damaged": files.damaged}


def _status(files: RunFiles) -> str:
    """`running` while a process holds the lock, otherwise why the last process ended."""
    if files.is_locked():
        return "running"
    reason = files.text(META, "exit_reason")
    if reason is not None:
        return reason
    return "killed" if files.has(STATUS) or files.has(META) else "empty"


def _steps(run: dict[str, Any]) -> str:
    """Steps done, and the total if the run has one."""
    total = "" if run["total_steps"] is None else f"/{format_count(run['total_steps'])}"
    return f"{format_count(run['env_steps'])}{total}"


def _status_cell(run: dict[str, Any]) -> str:
    damage = ", ".join(run["damaged"])
    return f"{run['status']} (damaged: {damage})" if damage else str(run["status"])


def _table(found: list[dict[str, Any]]) -> str:
    head = ("run", "env", "algo", "steps", "score", "status", "age")
    rows = [
        (
            run["run_dir"],
            run["env"] or "?",
            run["algo"] or "?",
            _steps(run),
            format_score(run["mean_score"]),
            _status_cell(run),
            format_duration(run["age_s"]),
        )
        for run in found
    ]
    return format_columns([head, *rows], indent="")
