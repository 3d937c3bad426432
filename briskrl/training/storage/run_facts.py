"""What lists of runs show about a run, from its small files; imports nothing heavy."""

from __future__ import annotations

from pathlib import Path

from briskrl.training.storage.run_files import CONFIG, META, STATUS, RunFiles
from briskrl.training.storage.run_selection import Facts, flat_settings


def describe_run(folder: Path) -> Facts:
    """Facts from the small files of a run folder; those that cannot be read are in `damaged`."""
    files = RunFiles(folder)
    return {**facts_of(files), "damaged": files.damaged}


def facts_of(files: RunFiles) -> Facts:
    """Facts from files that have been read, without `damaged`."""
    total = files.count(STATUS, "total_steps")
    return {
        "name": files.folder.name,
        "run_dir": str(files.folder),
        "env": files.text(CONFIG, "env"),
        "algo": files.text(CONFIG, "algo"),
        "env_steps": files.count(STATUS, "env_steps") or 0,
        "total_steps": files.count(CONFIG, "steps") if total is None else total,
        "final_score": files.number(META, "final_score"),
        "mean_score": files.number(STATUS, "mean_score"),
        "status": status_of(files),
        "best_score": files.best_score(),
        "age_s": files.age_s(),
        "settings": flat_settings(files),
    }


def status_of(files: RunFiles) -> str:
    """`running` while a process holds the lock, otherwise why the last process ended."""
    if files.is_locked():
        return "running"
    reason = files.text(META, "exit_reason")
    if reason is not None:
        return reason
    return "killed" if files.has(STATUS) or files.has(META) else "empty"
