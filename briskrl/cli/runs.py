"""`brisk runs`: list the run folders and their progress, delete them, or export them as a table."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from briskrl.cli.flags import Parser
from briskrl.cli.output import print_json
from briskrl.cli.targets import RUNS, find_run, run_folders
from briskrl.core.errors import BriskError, RunFolderError
from briskrl.core.format import format_columns, format_count, format_duration, format_score
from briskrl.training.storage.run_facts import describe_run
from briskrl.training.storage.run_files import RunFiles
from briskrl.training.storage.run_selection import filter_runs, sort_runs

EXAMPLES = """\
examples:
  brisk runs
  brisk runs --root elsewhere --json
  brisk runs --filter env=snake --filter 'score>40' --sort -score
  brisk runs --filter 'lr<=1e-3' --sort algo
  brisk runs rm runs/OLD runs/OLDER --yes
  brisk runs export --csv runs.csv --filter status=finished

Filters and sorting use the columns and all settings of the runs: NAME=VALUE (with * and ?),
NAME!=VALUE, NAME<VALUE, NAME>VALUE. A minus before the name sorts in descending order.

The score is that of the final evaluation, without exploration; beside it is the mean of the last
episodes of training. The status is running, finished, callback (stopped by the program), sigint,
sigterm or sighup (stopped by a signal and saved), an error, killed (no checkpoint at the end) or
empty. `brisk resume RUN` continues any run that is not running. Files that cannot be read, and a
checkpoint that is gone, are named as damaged."""


def run(argv: list[str]) -> int:
    """List, remove or export runs."""
    argv = _join_descending(argv)
    if argv[:1] == ["rm"]:
        return _remove(argv[1:])
    if argv[:1] == ["export"]:
        return _export(argv[1:])
    parser = Parser("brisk runs", "List the run folders, newest first.", EXAMPLES)
    parser.usage = "brisk runs [rm|export] [--filter ...] [--sort ...] [--root FOLDER] [--json]"
    _add_selection(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse(argv)
    found = _select(args)
    if args.json:
        print_json({"runs": found})
    elif found:
        print(_table(found))
    elif args.filter:
        print("No run meets these conditions.")
    else:
        print(f"No runs in {args.root}. Start one with: brisk train snake")
    return 0


def _add_selection(parser: Parser) -> None:
    parser.add_argument(
        "--root", default=str(RUNS), metavar="FOLDER", help="folder that holds the runs [runs]"
    )
    parser.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="CONDITION",
        help="as in env=snake, score>40",
    )
    parser.add_argument("--sort", metavar="NAME", help="column or setting; -NAME for descending")


def _join_descending(argv: list[str]) -> list[str]:
    """Write `--sort -score` as one word, which argparse does not take for a flag."""
    joined: list[str] = []
    for word in argv:
        if joined and joined[-1] == "--sort":
            joined[-1] = f"--sort={word}"
        else:
            joined.append(word)
    return joined


def _select(args: argparse.Namespace) -> list[dict[str, Any]]:
    root = Path(args.root)
    if root != RUNS and not root.is_dir():
        raise RunFolderError(f"There is no folder {root}.")
    found = filter_runs([describe_run(folder) for folder in run_folders(root)], args.filter)
    return found if args.sort is None else sort_runs(found, args.sort)


def _remove(argv: list[str]) -> int:
    """Delete run folders, none if one of them is not a run or is running."""
    parser = Parser("brisk runs rm", "Delete run folders with everything in them.")
    parser.usage = "brisk runs rm RUN... [--yes]"
    parser.add_argument("RUN", nargs="+", help="run folders, or their names under runs/")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    args = parser.parse(argv)
    folders = list(dict.fromkeys(find_run(word) for word in args.RUN))
    for folder in folders:
        if RunFiles(folder).is_locked():
            raise RunFolderError(f"{folder} is running. Stop it first; nothing was deleted.")
    if not args.yes and not _confirmed(folders):
        print("Nothing was deleted.")
        return 1
    for folder in folders:
        try:
            # A link is removed, not what it points to.
            folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)
        except OSError as error:
            raise RunFolderError(f"{folder} cannot be deleted: {error.strerror}.") from error
        print(f"deleted {folder}")
    return 0


def _confirmed(folders: list[Path]) -> bool:
    if not sys.stdin.isatty():
        raise BriskError("Add --yes to delete without a terminal to ask on; nothing was deleted.")
    names = ", ".join(str(folder) for folder in folders)
    return input(f"Delete {names}? [y/N] ").strip().lower() in ("y", "yes")


def _export(argv: list[str]) -> int:
    """Write all runs to one table."""
    parser = Parser("brisk runs export", "Write a table with a row per run: facts and settings.")
    parser.usage = "brisk runs export --csv FILE | --parquet FILE [--filter ...] [--sort ...]"
    _add_selection(parser)
    parser.add_argument("--csv", metavar="FILE", help="write comma-separated values")
    parser.add_argument("--parquet", metavar="FILE", help="write Parquet (needs pyarrow)")
    args = parser.parse(argv)
    if (args.csv is None) == (args.parquet is None):
        raise BriskError("Give one of --csv FILE and --parquet FILE.")
    found = _select(args)
    from briskrl.cli.run_tables import write_csv, write_parquet

    if args.csv is not None:
        write_csv(found, Path(args.csv))
    else:
        write_parquet(found, Path(args.parquet))
    print(f"wrote {args.csv or args.parquet}: {len(found)} runs")
    return 0


def _steps(run: dict[str, Any]) -> str:
    """Steps done, and the total if the run has one."""
    total = "" if run["total_steps"] is None else f"/{format_count(run['total_steps'])}"
    return f"{format_count(run['env_steps'])}{total}"


def _status_cell(run: dict[str, Any]) -> str:
    damage = ", ".join(run["damaged"])
    return f"{run['status']} (damaged: {damage})" if damage else str(run["status"])


def _table(found: list[dict[str, Any]]) -> str:
    head = ("run", "env", "algo", "steps", "score", "in training", "status", "age")
    rows = [
        (
            run["run_dir"],
            run["env"] or "?",
            run["algo"] or "?",
            _steps(run),
            format_score(run["final_score"]),
            format_score(run["mean_score"]),
            _status_cell(run),
            format_duration(run["age_s"]),
        )
        for run in found
    ]
    return format_columns([head, *rows], indent="")
