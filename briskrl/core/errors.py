"""The errors users meet: what happened, why, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BriskError(Exception):
    """A mistake of the user's, told in one paragraph; the command line exits with code 2."""

    exit_code = 2


class ConfigError(BriskError):
    """A configuration that cannot be used; nothing has been written to disk."""


class RunFolderError(BriskError):
    """A run folder that is missing, locked, taken or damaged beyond its last checkpoint."""


class StorageError(BriskError):
    """Saving failed (disk full, no permission); what was saved before is intact."""

    exit_code = 1


class DivergedError(BriskError):
    """Training produced non-finite numbers and was stopped; the last checkpoint is intact."""

    exit_code = 1


class EnvStepError(BriskError):
    """An environment raised, or returned something that cannot be learnt from."""

    exit_code = 1

    def __init__(self, message: str, index: int = -1) -> None:
        super().__init__(message)
        self.index = index
        """Which environment of the batch; -1 if it is not known."""


class EnvWorkerError(BriskError):
    """A process that steps environments died, or one of its environments is stuck."""

    exit_code = 1

    def __init__(self, message: str, indices: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.indices = indices
        """The environments it was responsible for."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A clause naming the closest known names, or all of them if nothing is close."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return "Did you mean " + " or ".join(repr(match) for match in close) + "?"
    return "Known: " + ", ".join(names) + "."
