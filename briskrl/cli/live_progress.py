"""Progress of several runs at once: a live table on a terminal, or plain lines now and then."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TextIO

from briskrl.cli.output import drawing, terminal_environ
from briskrl.core.format import escape_controls, format_duration

if TYPE_CHECKING:
    from rich.table import Table

ROW_SECONDS = 10.0
"""Seconds between plain lines about the same run."""
REDRAW_SECONDS = 0.25


def is_live(stream: TextIO) -> bool:
    """Whether a table can be redrawn on this stream."""
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"


class PacedLines:
    """Prints lines; those about the progress of a run only every few seconds."""

    def __init__(self, stream: TextIO, every_s: float = ROW_SECONDS) -> None:
        self._stream = stream
        self._every_s = every_s
        self._last: dict[str, float] = {}

    def print(self, text: str) -> None:
        """Print a line at once."""
        print(text, file=self._stream, flush=True)

    def begin(self, name: str) -> None:
        """Start the time until the first line about the progress of a run."""
        self._last[name] = time.monotonic()

    def print_progress(self, name: str, text: Callable[[], str]) -> None:
        """Print a line, unless the last one about the run is recent."""
        now = time.monotonic()
        if now - self._last.get(name, 0.0) >= self._every_s:
            self._last[name] = now
            self.print(text())


class LiveTable:
    """Redraws a table at the bottom of a terminal; lines are printed above it.

    Args:
        stream: A terminal.
        build: Makes the table as it is now.
    """

    def __init__(self, stream: TextIO, build: Callable[[], Table]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=drawing(stream), highlight=False, _environ=terminal_environ())
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._build = build
        self._begin = time.monotonic()
        self._drawn = 0.0

    def start(self) -> None:
        """Begin to draw."""
        self._live.start()

    def print(self, text: str) -> None:
        """Print lines above the table."""
        self._console.print(escape_controls(text, keep="\n"), markup=False, soft_wrap=True)

    def draw(self, *, force: bool = False) -> None:
        """Redraw, unless that was done just before."""
        now = time.monotonic()
        if force or now - self._drawn >= REDRAW_SECONDS:
            self._drawn = now
            self._live.update(self._build(), refresh=True)

    def empty_table(self, done: str, columns: Iterable[str], wide: str) -> Table:
        """A table without rows, with what is done and the time so far as its title.

        Args:
            done: What is done so far.
            columns: Names of the columns.
            wide: The column whose text may take several lines.
        """
        from rich.table import Table

        took = format_duration(time.monotonic() - self._begin)
        table = Table(title=f"{done}, {took}", title_justify="left")
        for name in columns:
            table.add_column(name, no_wrap=name != wide)
        return table

    def close(self) -> None:
        """Restore the terminal; may be called twice."""
        self._live.stop()


def add_row(table: Table, cells: Iterable[Any]) -> None:
    """Add a row of plain text: markup and control characters in it have no effect."""
    from rich.text import Text

    table.add_row(*(Text(escape_controls(cell)) for cell in cells))
