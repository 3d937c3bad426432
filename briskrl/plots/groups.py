"""Charts of groups of runs: final scores with intervals, curves beside them, importance bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from briskrl.core.format import format_percent, strip_control_chars
from briskrl.plots.panels import HEIGHT, Panel, draw_panel, line_colors
from briskrl.plots.panels import WIDTH as PANEL_WIDTH
from briskrl.plots.rows import AXIS, ROW, WIDTH, name_rows
from briskrl.plots.style import INK, PALETTE, SOFT, WALL, new_figure, set_linear_ticks, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE_WIDTH = 270
"""Width of the final scores beside curves, points."""


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """The aggregate score of a group of runs, its interval, and the score of every run."""

    name: str
    value: float
    low: float | None
    """Ends of the interval; None if it is unknown, as with a single run."""
    high: float | None
    scores: Sequence[float] = ()


def score_intervals(rows: Sequence[ScoreRow], *, x_label: str) -> Figure:
    """A line per group over its interval, a dot at its score, and a mark for every run."""
    with style():
        figure, (ax,) = new_figure(WIDTH, ROW * max(1, len(rows)) + AXIS)
        colors = [PALETTE[index % len(PALETTE)] for index in range(len(rows))]
        _draw_scores(ax, rows, colors, x_label=x_label)
    return figure


def curves_and_scores(
    panel: Panel, rows: Sequence[ScoreRow], *, x_label: str, mark: float | None = None
) -> Figure:
    """Learning curves, and beside them the final scores of the same groups in the same colors.

    The names at the final scores are the legend.

    Args:
        panel: The curves, with their own dashed line.
        rows: The final scores.
        x_label: What the final scores are.
        mark: Place of a dashed line among them.
    """
    known = line_colors([panel])
    spare = iter(color for color in PALETTE if color not in known.values())
    colors = [known.get(row.name) or next(spare, SOFT) for row in rows]
    with style():
        height = max(HEIGHT, ROW * len(rows) + AXIS)
        widths = [PANEL_WIDTH + 40, SIDE_WIDTH]
        figure, (left, right) = new_figure(sum(widths), height, columns=2, widths=widths)
        draw_panel(left, panel, known)
        _draw_scores(right, rows, colors, x_label=x_label)
        _add_handles(right, colors)
        if mark is not None:
            right.axvline(mark, color=INK, linewidth=1, linestyle=(0, (4, 4)), zorder=0)
    return figure


def importance_bars(shares: Sequence[tuple[str, float]]) -> Figure:
    """One bar per setting with its share of the differences between trials, largest first."""
    ordered = sorted(shares, key=lambda item: -item[1])
    with style():
        figure, (ax,) = new_figure(WIDTH, ROW * max(1, len(ordered)) + 8)
        values = [share for _, share in ordered]
        bars = ax.barh(range(len(ordered)), values, 0.55, color=WALL)
        ax.bar_label(bars, [format_percent(share) for share in values], padding=3, fontsize="small")
        # Room for the value beside the longest bar.
        ax.set_xlim(0, 1.12 * max(values, default=0.0) or 1.0)
        ax.set_xticks([])
        ax.spines["bottom"].set_visible(False)
        name_rows(ax, [name for name, _ in ordered])
    return figure


def _draw_scores(
    ax: Axes, rows: Sequence[ScoreRow], colors: Sequence[str], *, x_label: str
) -> None:
    for index, (row, color) in enumerate(zip(rows, colors, strict=True)):
        (marks,) = ax.plot(row.scores, [index] * len(row.scores), "|", color=color, markersize=8)
        marks.set_alpha(0.55)
        marks.set_markeredgewidth(1.2)
        if row.low is not None and row.high is not None:
            (stroke,) = ax.plot([row.low, row.high], [index, index], color=color, linewidth=5)
            stroke.set_alpha(0.35)
            stroke.set_solid_capstyle("butt")
        ax.plot([row.value], [index], "o", color=color, markersize=6)
    ax.grid(axis="x")
    set_linear_ticks(ax.xaxis)
    ax.margins(x=0.06)
    ax.set_xlabel(strip_control_chars(x_label))
    name_rows(ax, [row.name for row in rows])


def _add_handles(ax: Axes, colors: Sequence[str]) -> None:
    """Turn the ticks of the rows into samples of the curves, so that the names are a legend."""
    ax.tick_params(axis="y", length=14, width=2.2)
    for tick, color in zip(ax.yaxis.get_major_ticks(), colors, strict=True):
        tick.tick1line.set_markeredgecolor(color)
