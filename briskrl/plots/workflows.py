"""Charts of runs under workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from briskrl.core.format import strip_control_chars
from briskrl.plots.rows import AXIS, ROW, WIDTH, name_rows
from briskrl.plots.style import BAD, GOOD, INK, LINE, PALETTE, SOFT, WALL, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLOT_WIDTH, PLOT_HEIGHT = 520, 300
LEGEND_ROW = 14
"""Height of a line of a legend below a chart, points."""


@dataclass(frozen=True, slots=True)
class ScoredPoint:
    """A workflow by its compliance and score, with the ends of the score's interval."""

    name: str
    compliance: float
    score: float
    low: float
    high: float
    obeyed: bool


@dataclass(frozen=True, slots=True)
class Expected:
    """What a model expects of a workflow."""

    mean: float
    std: float
    score: float | None
    """Its observed score, if it was evaluated."""


@dataclass(frozen=True, slots=True)
class PairCell:
    """How often two categories competed, and what it is worth to put the first one first."""

    first: int
    second: int
    share: float
    value: float | None
    """Mean expected score of the orders with `first` before `second`, minus that of the others."""


def score_against_compliance(
    points: Sequence[ScoredPoint], *, threshold: float, labeled: int = 5
) -> Figure:
    """A dot per workflow over the interval of its score; the dashed line is the threshold."""
    with style():
        figure, (ax,) = new_figure(PLOT_WIDTH, PLOT_HEIGHT)
        for point in points:
            color = GOOD if point.obeyed else BAD
            ax.plot([point.compliance] * 2, [point.low, point.high], color=color, alpha=0.35)
            (dot,) = ax.plot([point.compliance], [point.score], "o", color=color, markersize=5)
            dot.set_gid("obeyed" if point.obeyed else "not-obeyed")
        ax.axvline(threshold, color=INK, linewidth=1, linestyle=(0, (4, 4)))
        for point in points[:labeled]:
            _label(ax, point.compliance, point.score, point.name)
        ax.margins(x=0.1, y=0.12)
        ax.set_xlabel("pooled compliance")
        ax.set_ylabel("score")
    return figure


def posterior_curve(expected: Sequence[Expected]) -> Figure:
    """Expected scores of all workflows, the best first, with two standard deviations."""
    with style():
        figure, (ax,) = new_figure(PLOT_WIDTH, PLOT_HEIGHT)
        mean = np.array([one.mean for one in expected])
        std = np.array([one.std for one in expected])
        ranks = np.arange(1, len(expected) + 1)
        ax.fill_between(ranks, mean - 2 * std, mean + 2 * std, color=WALL, alpha=0.15, linewidth=0)
        (line,) = ax.plot(ranks, mean, color=WALL, label="expected score, two standard deviations")
        line.set_gid("posterior")
        seen = [
            (rank, one.score)
            for rank, one in zip(ranks, expected, strict=True)
            if one.score is not None
        ]
        if seen:
            xs, ys = zip(*seen, strict=True)
            ax.plot(xs, ys, "o", color=PALETTE[1], markersize=4, label="evaluated")
        ax.set_xlabel("workflows, by expected score")
        ax.set_ylabel("score")
        ax.legend(loc="lower left", fontsize="small")
    return figure


def pair_heat_map(categories: Sequence[str], cells: Sequence[PairCell]) -> Figure:
    """Shares of fixes at which two categories competed; the number is the value of the order.

    A positive number in row i and column j means that orders with i before j score better.
    """
    m = len(categories)
    shares = np.full((m, m), np.nan)
    for cell in cells:
        shares[cell.first, cell.second] = cell.share
    with style():
        figure, (ax,) = new_figure(PLOT_WIDTH, 60 + 40 * m)
        image = ax.imshow(shares, cmap="Blues", vmin=0.0, aspect="auto")
        for cell in cells:
            if cell.value is not None:
                dark = cell.share > 0.6 * np.nanmax(shares) if np.nanmax(shares) > 0 else False
                ax.text(
                    cell.second,
                    cell.first,
                    f"{cell.value:+.3g}",
                    ha="center",
                    va="center",
                    color="white" if dark else INK,
                    fontsize="small",
                )
        names = [strip_control_chars(name) for name in categories]
        ax.set_xticks(range(m), names, rotation=20, ha="right")
        ax.set_yticks(range(m), names)
        ax.grid(visible=False)
        for side in ax.spines.values():
            side.set_visible(False)
        bar = figure.colorbar(image, ax=ax, shrink=0.8)
        bar.set_label("share of judged fixes")
        bar.outline.set_edgecolor(LINE)
    return figure


def exposure_bars(categories: Sequence[str], shares: Mapping[str, Sequence[float]]) -> Figure:
    """Mean share of steps at which each category was open, a bar per workflow."""
    height = 0.8 / max(1, len(shares))
    with style():
        rows = ROW * len(categories) * max(1.0, 0.45 * len(shares))
        figure, (ax,) = new_figure(WIDTH, rows + AXIS + LEGEND_ROW * len(shares))
        for index, (name, values) in enumerate(shares.items()):
            places = np.arange(len(categories)) - 0.4 + (index + 0.5) * height
            color = PALETTE[index % len(PALETTE)]
            ax.barh(places, values, height, color=color, label=strip_control_chars(name))
        name_rows(ax, list(categories))
        ax.grid(axis="x")
        ax.set_xlabel("share of steps that the category is open")
        figure.legend(loc="outside lower center", fontsize="x-small")
    return figure


def search_paths(paths: Mapping[str, Sequence[float]]) -> Figure:
    """Best score so far after each evaluated workflow, a line per way of searching."""
    with style():
        figure, (ax,) = new_figure(PLOT_WIDTH, PLOT_HEIGHT)
        for index, (name, values) in enumerate(paths.items()):
            marker = "o" if len(values) == 1 else None
            (line,) = ax.plot(
                range(1, len(values) + 1),
                values,
                color=PALETTE[index % len(PALETTE)] if index < len(PALETTE) else SOFT,
                drawstyle="steps-post" if index == 0 else "default",
                marker=marker,
                label=strip_control_chars(name),
            )
            line.set_gid(f"path-{index}")
        ax.set_xlabel("evaluated workflows")
        ax.set_ylabel("best expected score so far")
        ax.legend(loc="lower right", fontsize="small")
    return figure


def _label(ax: Axes, x: float, y: float, text: str) -> None:
    ax.annotate(
        strip_control_chars(text),
        (x, y),
        xytext=(4, 3),
        textcoords="offset points",
        fontsize="x-small",
        color=SOFT,
    )
