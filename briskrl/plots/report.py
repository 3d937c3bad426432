"""Charts of a doctor's report: time per phase, experiments with intervals, course over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING, Literal

from briskrl.core.format import format_figures, strip_control_chars
from briskrl.plots.rows import AXIS, ROW, WIDTH, name_rows
from briskrl.plots.style import (
    BAD,
    CPU,
    GOOD,
    INK,
    SOFT,
    WALL,
    new_figure,
    set_linear_ticks,
    short_number,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVE_WIDTH, CURVE_HEIGHT = 300, 165
GAP = 10.0
"""A gap in a curve is more than this many times the usual distance between two points."""
NARROW = 4.0
"""A logarithmic axis whose ends have a smaller ratio gets evenly spaced ticks."""

Tone = Literal["good", "bad", "plain"]
_TONES: dict[Tone, str] = {"good": GOOD, "bad": BAD, "plain": SOFT}


@dataclass(frozen=True, slots=True)
class PhaseBar:
    """Wall time and CPU time of one phase."""

    name: str
    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A positive speed factor with the ends of its interval, which may be 0 and infinity."""

    name: str
    factor: float
    low: float
    high: float
    tone: Tone


def phase_bars(rows: Sequence[PhaseBar]) -> Figure:
    """Two bars per phase, wall time above CPU time, with their values at the end."""
    with style():
        figure, (ax,) = new_figure(WIDTH, ROW * max(1, len(rows)) + 8)
        for gid, color, offset, values in (
            ("wall", WALL, -0.2, [row.wall for row in rows]),
            ("cpu", CPU, 0.2, [row.cpu for row in rows]),
        ):
            places = [index + offset for index in range(len(rows))]
            bars = ax.barh(places, values, 0.36, color=color)
            for patch in bars:
                patch.set_gid(gid)
            ax.bar_label(
                bars, [format_figures(value) for value in values], padding=3, fontsize="small"
            )
        largest = max((value for row in rows for value in (row.wall, row.cpu)), default=0.0)
        # Room for the value beside the longest bar.
        ax.set_xlim(0, 1.12 * largest or 1.0)
        ax.set_xticks([])
        ax.spines["bottom"].set_visible(False)
        name_rows(ax, [row.name for row in rows])
    return figure


def experiment_intervals(rows: Sequence[Interval]) -> Figure:
    """Speed factors with their intervals on a logarithmic axis; a dashed line marks no change."""
    with style():
        figure, (ax,) = new_figure(WIDTH, ROW * max(1, len(rows)) + AXIS)
        first, last = _factor_range(rows)
        ax.set_xscale("log")
        ax.set_xlim(first, last)
        ax.axvline(1.0, color=INK, linewidth=1, linestyle=(0, (4, 4)))
        for index, row in enumerate(rows):
            color = _TONES[row.tone]
            span = [min(max(end, first), last) for end in (row.low, row.high)]
            (stroke,) = ax.plot(span, [index, index], color=color)
            (dot,) = ax.plot([row.factor], [index], "o", color=color, markersize=6)
            stroke.set_gid(row.tone)
            dot.set_gid(f"{row.tone}-dot")
        _set_factor_ticks(ax, first, last)
        ax.grid(axis="x")
        ax.grid(visible=False, axis="y")
        ax.set_xlabel("times as fast")
        name_rows(ax, [row.name for row in rows])
    return figure


def history_curve(
    x_label: str, points: Sequence[tuple[float, float]], *, from_zero: bool = True
) -> Figure:
    """A curve through points in order of x, interrupted where nothing was measured.

    Args:
        x_label: Name and unit of x.
        points: x and value; points that are not finite are left out.
        from_zero: Whether the value axis starts at 0. If not, it spans at least a tenth of the
            largest value, so that a flat curve looks flat.
    """
    kept = [(x, y) for x, y in points if isfinite(x) and isfinite(y)] or [(0.0, 0.0)]
    with style():
        figure, (ax,) = new_figure(CURVE_WIDTH, CURVE_HEIGHT)
        for piece in split_at_gaps(kept):
            marker = "o" if len(piece) == 1 else None
            xs, ys = zip(*piece, strict=True)
            (line,) = ax.plot(xs, ys, color=WALL, marker=marker, markersize=3)
            line.set_gid("curve")
        ax.set_xlim(0.0, max(x for x, _ in kept) or 1.0)
        ax.set_ylim(*_value_range([y for _, y in kept], from_zero=from_zero))
        set_linear_ticks(ax.xaxis)
        set_linear_ticks(ax.yaxis)
        ax.set_xlabel(strip_control_chars(x_label))
    return figure


def split_at_gaps(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """The points in pieces, split where two are much farther apart than usual."""
    distances = [after[0] - before[0] for before, after in pairwise(points)]
    widest = GAP * median(distances) if distances else 0.0
    pieces = [[points[0]]]
    for point, distance in zip(points[1:], distances, strict=True):
        if distance > widest:
            pieces.append([])
        pieces[-1].append(point)
    return pieces


def _factor_range(rows: Sequence[Interval]) -> tuple[float, float]:
    """Ends of the axis: all factors and finite ends of intervals, 1, and some room."""
    values = [value for row in rows for value in (row.low, row.factor, row.high)]
    known = [value for value in values if value > 0 and isfinite(value)]
    # A span of a fifth keeps differences of a percent from looking large.
    return min([*known, 0.9]) / 1.02, max([*known, 1.1]) * 1.02


def _set_factor_ticks(ax: Axes, first: float, last: float) -> None:
    """At most nine round factors."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    ratio = last / first
    if ratio < NARROW:
        ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    else:
        subs = (1.0, 2.0, 5.0) if ratio < 100 else (1.0, 3.0) if ratio < 1e4 else (1.0,)
        ax.xaxis.set_major_locator(LogLocator(subs=subs, numticks=9))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(short_number))


def _value_range(values: Sequence[float], *, from_zero: bool) -> tuple[float, float]:
    low, high = min(values), max(values)
    if from_zero:
        return min(0.0, low), 1.05 * high if high > 0 else 1.0
    room = max(0.0, 0.1 * abs(high) - (high - low)) / 2 + 0.05 * (high - low)
    return (low - room, high + room) if room else (low - 1.0, high + 1.0)
