"""Charts with one row per name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from briskrl.core.format import strip_control_chars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, ROW, AXIS = 440, 28, 44
"""Width of the chart, height of a row, and height of the axis below, points."""
LONGEST_NAME = 30
"""Characters of a name that fit; longer names are cut."""


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Name the rows from top to bottom; no axis line and no tick marks."""
    cut = [cut_name(strip_control_chars(name)) for name in names]
    ax.set_yticks(range(len(names)), cut)
    ax.set_ylim(max(1, len(names)) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(visible=False, axis="y")


def cut_name(name: str) -> str:
    """The name, or its beginning if it is too long."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
