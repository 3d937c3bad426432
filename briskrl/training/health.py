"""Signs in the metrics that training goes wrong, each reported once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import median

MOST_OUTSIDE = 0.02
"""Share of target probability outside the support that is worth a message."""

GROWTH, TOTAL_GROWTH, IN_A_ROW = 2.0, 1000.0, 3
"""A loss diverges if it grows by GROWTH in so many reports in a row, to TOTAL_GROWTH times its
median before them."""


class HealthCheck:
    """Looks at the figures of an algorithm at every report."""

    def __init__(self) -> None:
        self._losses: list[float] = []
        self._reported: set[str] = set()

    def observe(self, figures: Mapping[str, float]) -> list[str]:
        """Messages for the user that are new."""
        return [text for key, text in self._findings(figures) if self._is_new(key)]

    def _is_new(self, key: str) -> bool:
        known = key in self._reported
        self._reported.add(key)
        return not known

    def _findings(self, figures: Mapping[str, float]) -> Iterator[tuple[str, str]]:
        outside = figures.get("outside_support", 0.0)
        if outside > MOST_OUTSIDE:
            yield (
                "outside_support",
                f"{outside:.0%} of the returns are outside the support of their distribution and "
                "are clipped: widen it with --v-min and --v-max, or use --algo qr-dqn, which needs "
                "no support",
            )
        skipped = figures.get("skipped_updates", 0.0)
        if skipped:
            yield (
                "skipped_updates",
                f"{skipped:.0f} updates were skipped because their loss or gradient was not "
                "finite: try a smaller --lr or smaller rewards",
            )
        loss = figures.get("loss", figures.get("value_loss"))
        if loss is not None:
            self._losses.append(loss)
            if self._diverges():
                yield (
                    "diverging",
                    f"the loss has grown to {loss:.3g}, more than {TOTAL_GROWTH:,.0f} times what "
                    "it was: the values may diverge; try a smaller --lr, slower target updates or "
                    "--layer-norm",
                )

    def _diverges(self) -> bool:
        """Whether the last reports grew one after the other, far beyond those before."""
        # Long runs must not grow.
        del self._losses[:-64]
        recent, before = self._losses[-IN_A_ROW - 1 :], self._losses[: -IN_A_ROW - 1]
        if len(before) < IN_A_ROW or median(before) <= 0:
            return False
        grows = all(after > GROWTH * earlier for earlier, after in pairwise(recent))
        return grows and recent[-1] > TOTAL_GROWTH * median(before)
