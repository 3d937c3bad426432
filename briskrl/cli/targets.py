"""What a word on the command line points at: a run folder or an environment."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from briskrl.core.errors import RunFolderError, nearest
from briskrl.envs.registry import ENVS

RUNS = Path("runs")
"""Where run folders are made unless `--run-dir` says otherwise."""


def run_folders(root: Path = RUNS) -> list[Path]:
    """The run folders under a folder, newest first; a run folder holds a config.toml."""
    found = [path.parent for path in root.glob("*/config.toml")] if root.is_dir() else []
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def find_run(word: str) -> Path:
    """The run folder a word means: a path, or a name under runs/.

    Raises:
        RunFolderError: There is none; the message carries the nearest names.
    """
    folder = find_folder(word)
    if folder is None:
        raise RunFolderError(f"{word} is not a run folder. {_hint(word, [])}")
    return folder


def find_target(word: str) -> Path | str:
    """The run folder, or else the environment, that a word means.

    Raises:
        RunFolderError: It is neither.
    """
    folder = find_folder(word)
    if folder is not None:
        return folder
    if word in ENVS:
        return word
    raise RunFolderError(f"{word} is neither a run folder nor an environment. {_hint(word, ENVS)}")


def find_folder(word: str) -> Path | None:
    """The run folder a word means, or None if it means none."""
    for folder in (Path(word), RUNS / word):
        if (folder / "config.toml").is_file():
            return folder
    return None


def _hint(word: str, others: Iterable[str]) -> str:
    names = [str(path) for path in run_folders()] + list(others)
    return nearest(word, names) if names else "There are no runs yet; `brisk train` makes one."
