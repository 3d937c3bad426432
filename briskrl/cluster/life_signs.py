"""Signs of life of jobs that have no progress to report for a while."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic

from briskrl.core.types import JSON

EVERY_S = 5.0
"""Time between two of them; more would only cost messages."""


class LifeSigns:
    """Shows the driver that a job is at work; call it as often as there is progress.

    Args:
        report: See `JobContext`.
    """

    def __init__(self, report: Callable[[Mapping[str, JSON]], None]) -> None:
        self._report = report
        self._due = 0.0

    def __call__(self, *_: object) -> None:
        """Report without values, if the last time is long enough ago."""
        now = monotonic()
        if now >= self._due:
            self._due = now + EVERY_S
            self._report({})
