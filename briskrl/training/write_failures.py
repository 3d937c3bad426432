"""Writes of a running training that fail, for example because the disk is full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from briskrl.core.errors import StorageError

CONTINUES = (
    "Training continues: rows of the logs wait in memory, and the next checkpoint is tried at its "
    "usual time."
)


class WriteFailures:
    """Reports once that a run cannot be written, and once that it can be written again.

    A full disk fails every write for a while; one message at the beginning and one at the end are
    enough.

    Args:
        note: Receives the messages.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._reported = False

    def report(self, error: StorageError) -> None:
        """Report a failed write, unless one was reported since writing last worked."""
        if not self._reported:
            self._reported = True
            self._note(f"{error} {CONTINUES}")

    @contextmanager
    def tolerated(self) -> Iterator[None]:
        """Report a StorageError inside the block instead of raising it."""
        try:
            yield
        except StorageError as error:
            self.report(error)

    def end(self, checkpoint: str, dropped_rows: int) -> None:
        """Report that everything is written again, if a failure was reported."""
        if not self._reported:
            return
        self._reported = False
        lost = f"; {dropped_rows:,} rows of the logs are lost" if dropped_rows else ""
        self._note(f"The run can be written again: {checkpoint} is saved{lost}.")
