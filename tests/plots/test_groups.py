"""Charts of groups of runs, by where their marks lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes

from briskrl.plots import (
    PALETTE,
    Line,
    Panel,
    ScoreRow,
    curves_and_scores,
    importance_bars,
    save,
    score_intervals,
)

ROWS = [ScoreRow("a", 2.0, 1.0, 3.0, (0.5, 2.0, 3.5)), ScoreRow("b", 5.0, None, None, (5.0,))]
LINES = [Line("a", [1, 2], [1, 2], [0, 1], [2, 3]), Line("b", [1, 2], [4, 5], [4, 5], [4, 5])]


def marks(ax: Axes, marker: str) -> list[Any]:
    return [line for line in ax.get_lines() if line.get_marker() == marker]


def names(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_yticklabels()]


def test_every_group_has_a_dot_an_interval_and_a_mark_per_run() -> None:
    (ax,) = score_intervals(ROWS, x_label="final score").axes
    assert [tuple(dot.get_xdata()) for dot in marks(ax, "o")] == [(2.0,), (5.0,)]
    assert [tuple(some.get_xdata()) for some in marks(ax, "|")] == [(0.5, 2.0, 3.5), (5.0,)]
    # A single run has no interval.
    (stroke,) = marks(ax, "None")
    assert tuple(stroke.get_xdata()) == (1.0, 3.0)
    assert names(ax) == ["a", "b"]
    assert ax.yaxis_inverted()
    assert ax.get_xlabel() == "final score"
    low, high = ax.get_xlim()
    assert low < 0.5
    assert high > 5.0


def test_curves_and_scores_of_a_group_have_the_same_color() -> None:
    panel = Panel("snake", "steps", "score", LINES, mark=4.0)
    left, right = curves_and_scores(panel, ROWS, x_label="final score", mark=4.0).axes
    curves = {line.get_label(): line.get_color() for line in left.get_lines()[:2]}
    dots = [dot.get_color() for dot in marks(right, "o")]
    assert dots == [curves["a"], curves["b"]] == list(PALETTE[:2])
    handles = [tick.tick1line.get_markeredgecolor() for tick in right.yaxis.get_major_ticks()]
    assert handles == dots
    # The score to reach is a horizontal line on the left and a vertical one on the right.
    assert set(left.get_lines()[-1].get_ydata()) == {4.0}
    assert set(right.get_lines()[-1].get_xdata()) == {4.0}


def test_a_group_without_a_curve_has_a_color_of_its_own() -> None:
    panel = Panel("snake", "steps", "score", LINES[:1])
    _, right = curves_and_scores(panel, ROWS, x_label="final score").axes
    assert [dot.get_color() for dot in marks(right, "o")] == list(PALETTE[:2])


def test_importance_bars_are_sorted_and_start_at_zero() -> None:
    (ax,) = importance_bars([("gamma", 0.1), ("lr", 0.6), ("net", 0.3)]).axes
    assert [bar.get_width() for bar in ax.patches] == [0.6, 0.3, 0.1]
    assert names(ax) == ["lr", "net", "gamma"]
    assert [text.get_text() for text in ax.texts] == ["60%", "30%", "10%"]
    assert ax.get_xlim()[0] == 0


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_charts_of_hostile_names_can_be_written(tmp_path: Path, suffix: str) -> None:
    name = "$x_1$ <b>&\x1b[0m\n" + "long " * 20
    panel = Panel(name, name, name, [Line(name, [1], [1], [1], [1])])
    figure = curves_and_scores(panel, [ScoreRow(name, 1.0, None, None)], x_label=name)
    save(figure, tmp_path / f"a.{suffix}")
    assert (tmp_path / f"a.{suffix}").stat().st_size > 1000
    assert len(names(figure.axes[1])[0]) <= 30
    save(importance_bars([(name, 0.0)]), tmp_path / f"b.{suffix}")
    assert (tmp_path / f"b.{suffix}").stat().st_size > 1000
