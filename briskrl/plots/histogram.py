"""How often scores occur."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from briskrl.plots.report import CURVE_HEIGHT, CURVE_WIDTH
from briskrl.plots.style import INK, WALL, new_figure, set_linear_ticks, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BINS = 30


def score_histogram(scores: Sequence[float], *, x_label: str, mark: float) -> Figure:
    """The number of episodes per score; a dashed line marks `mark`, such as the mean.

    Whole scores that differ little get a bar each.
    """
    values = np.asarray(scores, np.float64)
    with style():
        figure, (ax,) = new_figure(CURVE_WIDTH, CURVE_HEIGHT)
        ax.hist(values, _edges(values), color=WALL)
        ax.axvline(mark, color=INK, linewidth=1, linestyle=(0, (4, 4)))
        set_linear_ticks(ax.xaxis)
        set_linear_ticks(ax.yaxis)
        ax.set_xlabel(x_label)
        ax.set_ylabel("episodes")
    return figure


def _edges(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[float]:
    low, high = float(values.min()), float(values.max())
    if (values == np.round(values)).all() and high - low < MOST_BINS:
        return [low - 0.5 + bar for bar in range(int(high - low) + 2)]
    if low == high:
        return [low - 0.5, high + 0.5]
    return [float(edge) for edge in np.linspace(low, high, MOST_BINS + 1)]
