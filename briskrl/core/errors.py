"""Errors with a message for the user: what happened, why, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BriskError(Exception):
    """An error whose message is one paragraph for the user; the command line exits with 2."""

    exit_code = 2


class ConfigError(BriskError):
    """A setting cannot be used; nothing has been written to disk."""


class RunFolderError(BriskError):
    """A run folder is missing, locked, already in use, or has no valid checkpoint."""


class InvalidStateError(BriskError, ValueError):
    """A saved state holds an array or a number that no run can have written."""


class StorageError(BriskError):
    """Saving failed (disk full, no permission); what was saved before is intact."""

    exit_code = 1


class DivergedError(BriskError):
    """Training produced non-finite numbers and was stopped; the last checkpoint is intact."""

    exit_code = 1


class EnvStepError(BriskError):
    """An environment raised an exception or returned invalid data."""

    exit_code = 1

    def __init__(self, message: str, index: int = -1) -> None:
        super().__init__(message)
        self.index = index
        """Index of the environment; -1 if unknown."""


class EnvWorkerError(BriskError):
    """A worker process died, or an environment does not respond."""

    exit_code = 1

    def __init__(self, message: str, indices: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.indices = indices
        """Indices of the environments of the worker."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A clause naming the closest known names, or all of them if nothing is close."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return "Did you mean " + " or ".join(repr(match) for match in close) + "?"
    return "Known: " + ", ".join(names) + "."
