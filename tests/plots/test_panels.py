"""Panels of curves, by where their curves lie."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.plots import PALETTE, Line, Panel, draw_panels

LINE = Line("a < b", [1, 10, 100], [1, 3, 2], [0, 2, 1], [2, 4, 3])


@pytest.mark.parametrize("log_x", [False, True])
def test_curves_lie_inside_their_bands_and_panels(log_x: bool) -> None:
    figure = draw_panels([Panel("t", "x", "y", [LINE], log_x=log_x, mark=5)] * 2)
    assert len(figure.axes) == 2
    for ax in figure.axes:
        curve, mark = ax.get_lines()
        (band,) = ax.collections
        xs, ys = curve.get_data()
        assert np.asarray(xs).tolist() == [1, 10, 100]
        edges = band.get_paths()[0].vertices
        for x, y in zip(xs, ys, strict=True):
            heights = edges[edges[:, 0] == x][:, 1]
            assert heights.min() < y < heights.max()
        left, right = ax.get_xlim()
        bottom, top = ax.get_ylim()
        assert left <= min(xs)
        assert max(xs) <= right
        assert bottom <= min(ys)
        assert max(ys) < 5 < top
        assert set(mark.get_ydata()) == {5}
        assert ax.get_xscale() == ("log" if log_x else "linear")
        assert ax.get_title(loc="left") == "t"


def test_a_single_flat_point_can_be_drawn() -> None:
    figure = draw_panels([Panel("t", "x", "y", [Line("a", [1], [0], [0], [0])])])
    figure.draw_without_rendering()
    (line,) = figure.axes[0].get_lines()
    assert line.get_marker() == "o"


def test_a_logarithmic_axis_leaves_out_the_very_beginning() -> None:
    line = Line("a", [1e-6, 1, 100], [1, 1, 1], [1, 1, 1], [1, 1, 1])
    (ax,) = draw_panels([Panel("t", "x", "y", [line], log_x=True)]).axes
    left, right = ax.get_xlim()
    assert right == 100
    assert 100 < right / left < 1000


def test_a_wide_band_does_not_press_the_curves_flat() -> None:
    wide = Line("a", [1, 2], [1, 2], [-500, -500], [500, 500])
    (ax,) = draw_panels([Panel("t", "x", "y", [wide])]).axes
    assert ax.get_ylim()[1] < 3


def test_ticks_are_round_and_inside() -> None:
    line = Line("a", [0, 500_000], [0, 20], [0, 20], [0, 20])
    (ax,) = draw_panels([Panel("t", "x", "y", [line])]).axes
    assert [tick for tick in ax.get_xticks() if tick <= 500_000] == list(range(0, 500_001, 100_000))


def test_lines_of_one_name_have_one_color_and_one_legend_entry() -> None:
    other = Line("other", [1, 2], [1, 2], [1, 2], [1, 2])
    figure = draw_panels([Panel("t", "x", "y", [LINE, other]), Panel("t", "x", "y", [other])])
    assert figure.axes[0].get_lines()[1].get_color() == PALETTE[1]
    assert figure.axes[1].get_lines()[0].get_color() == PALETTE[1]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a < b", "other"]


def test_a_single_curve_needs_no_legend() -> None:
    assert draw_panels([Panel("t", "x", "y", [LINE])] * 2).legends == []


def test_long_names_share_several_lines_of_the_legend() -> None:
    lines = [Line(f"train_steps_ratio={index}, lr=0.001", [1], [1], [1], [1]) for index in range(4)]
    figure = draw_panels([Panel("t", "x", "y", lines)])
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert legend.x1 <= figure.bbox.x1
    assert legend.y0 >= figure.axes[0].get_window_extent().y1
