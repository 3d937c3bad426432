"""Scores of a run after equal parts of its budget, for decisions that must be repeatable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from briskrl.core.types import JSON

if TYPE_CHECKING:
    from briskrl.training.recorder import RunRecorder


class MilestoneHook:
    """Reports the number of every milestone that a run reaches, with its scores there.

    Unlike the progress of a run, which is reported by time, they are the same in every repetition.
    A run that continues reports the last milestone again, because the driver may have missed it.

    Args:
        report: See `JobContext`. Gets milestone, env_steps, mean_score and mean_return.
        count: Equal parts of the budget; the end of the last one is the end of the run and not
            reported. 0 reports none.
    """

    def __init__(self, report: Callable[[Mapping[str, JSON]], None], count: int) -> None:
        self._report = report
        self._count = count
        self._last = 0

    def __call__(self, recorder: RunRecorder) -> None:
        """Report if a milestone was reached since the last call."""
        counters = recorder.trainer.counters
        milestone = int(counters.fraction * self._count)
        if self._last < milestone < self._count:
            self._last = milestone
            self._report(
                {
                    "milestone": milestone,
                    "env_steps": counters.env_steps,
                    "mean_score": recorder.recent.mean_score,
                    "mean_return": recorder.recent.mean_return,
                }
            )
