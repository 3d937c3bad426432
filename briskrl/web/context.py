"""What the routes of the dashboard share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from briskrl.web.run_index import RunIndex

if TYPE_CHECKING:
    from briskrl.web.series.curve_sets import CurveAnswers
    from briskrl.web.series.run_series import SeriesCache


@dataclass
class WebContext:
    """The known runs, whether they are trusted, and what to do when the server stops."""

    index: RunIndex
    trust: bool = False
    """Import the modules that runs name, even if other users can change their folders."""
    closers: list[Callable[[], None]] = field(default_factory=list)

    @cached_property
    def series(self) -> SeriesCache:
        """Logs that have been read; NumPy is imported when the first of them is."""
        from briskrl.web.series.run_series import SeriesCache

        return SeriesCache()

    @cached_property
    def curves(self) -> CurveAnswers:
        """Answers about curves."""
        from briskrl.web.series.curve_sets import CurveAnswers

        return CurveAnswers(self.series)

    def on_close(self, function: Callable[[], None]) -> None:
        """Call `function` when the server stops; the last registered one first."""
        self.closers.append(function)

    def close(self) -> None:
        """Run everything that was registered, once."""
        while self.closers:
            self.closers.pop()()
