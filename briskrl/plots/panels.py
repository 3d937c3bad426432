"""Panels of curves with bands, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from briskrl.core.format import strip_control_chars
from briskrl.plots.style import INK, PALETTE, new_figure, set_linear_ticks, short_number, style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT, LEGEND_HEIGHT = 330, 215, 22
"""Size of one panel and of a line of the legend above all panels, in points."""
LETTER, HANDLE = 5.2, 42
"""Width of a letter and of a line with its margins in the legend, points."""
LOG_SPAN = 10**2.5
"""Largest ratio between the ends of a logarithmic axis; what lies before it is cut off."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve; `low` and `high` are the edges of its band."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves that share axes; x must be positive if its axis is logarithmic."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    log_x: bool = False
    mark: float | None = None
    """Height of a dashed horizontal line."""


def draw_panels(panels: Sequence[Panel], *, columns: int = 3) -> Figure:
    """One panel per entry, `columns` in a row, with one legend for all of them.

    Lines of the same name have the same color in every panel.
    """
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    colors = line_colors(panels)
    per_line = _legend_columns(colors, columns * WIDTH)
    with style():
        height = rows * HEIGHT
        if len(colors) > 1:
            height += LEGEND_HEIGHT * -(-len(colors) // per_line)
        figure, axes = new_figure(columns * WIDTH, height, rows=rows, columns=columns)
        for ax in axes[len(panels) :]:
            ax.set_visible(False)
        for ax, panel in zip(axes, panels, strict=False):
            draw_panel(ax, panel, colors)
        if len(colors) > 1:
            _add_legend(figure, axes[: len(panels)], per_line)
    return figure


def line_colors(panels: Sequence[Panel]) -> dict[str, str]:
    """The color of every name, in the order of first appearance."""
    names = dict.fromkeys(line.name for panel in panels for line in panel.lines)
    return {name: PALETTE[index % len(PALETTE)] for index, name in enumerate(names)}


def draw_panel(ax: Axes, panel: Panel, colors: Mapping[str, str]) -> None:
    """Draw one panel into its axes."""
    for line in panel.lines:
        color = colors[line.name]
        ax.fill_between(line.x, line.low, line.high, color=color, alpha=0.15, linewidth=0)
        marker = "o" if len(line.x) == 1 else None
        label = strip_control_chars(line.name)
        ax.plot(line.x, line.y, color=color, label=label, marker=marker)
    if panel.mark is not None:
        ax.axhline(panel.mark, color=INK, linewidth=1, linestyle=(0, (4, 4)))
    ax.set_title(strip_control_chars(panel.title))
    ax.set_xlabel(strip_control_chars(panel.x_label))
    ax.set_ylabel(strip_control_chars(panel.y_label))
    _set_limits(ax, panel)
    _set_ticks(ax, log_x=panel.log_x)


def _set_limits(ax: Axes, panel: Panel) -> None:
    """Fit the axes to the curves; a wide band is cut off rather than pressing the curves flat."""
    heights = [value for line in panel.lines for value in line.y]
    heights += [] if panel.mark is None else [panel.mark]
    lowest, highest = min(0.0, *heights), max(heights)
    room = 0.12 * (highest - lowest) or 1.0
    ax.set_ylim(lowest, highest + room)
    spots = [value for line in panel.lines for value in line.x]
    last = max(spots)
    if panel.log_x:
        ax.set_xscale("log")
        first = max(min(spots), last / LOG_SPAN)
        ax.set_xlim(first, last if last > first else 2 * first)
    else:
        ax.set_xlim(0.0, last or 1.0)


def _set_ticks(ax: Axes, *, log_x: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    set_linear_ticks(ax.yaxis)
    if log_x:
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(short_number))
    else:
        set_linear_ticks(ax.xaxis)


def _legend_columns(names: Iterable[str], width: float) -> int:
    """How many names fit beside each other."""
    longest = max(len(name) for name in names)
    return max(1, int(width / (LETTER * longest + HANDLE)))


def _add_legend(figure: Figure, axes: Sequence[Axes], columns: int) -> None:
    """One entry per name above all panels, in the order of first appearance."""
    found: dict[str, Artist] = {}
    for ax in axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    columns = min(columns, len(found))
    figure.legend(list(found.values()), list(found), loc="outside upper left", ncols=columns)
