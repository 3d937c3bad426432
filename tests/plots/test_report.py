"""Charts of a report, by where their marks lie."""

from __future__ import annotations

from math import log10
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from briskrl.plots import Interval, PhaseBar, experiment_intervals, history_curve, phase_bars
from briskrl.plots.style import BAD, CPU, GOOD, SOFT, WALL


def bars(figure: Figure, color: str) -> list[Any]:
    from matplotlib.colors import to_rgba

    return [bar for bar in figure.axes[0].patches if bar.get_facecolor() == to_rgba(color)]


def dots(figure: Figure) -> list[Any]:
    return [line for line in figure.axes[0].get_lines() if line.get_marker() == "o"]


def strokes(figure: Figure) -> list[Any]:
    """The intervals; the first line of the axes marks 1."""
    return [line for line in figure.axes[0].get_lines()[1:] if line.get_marker() != "o"]


def names(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].get_yticklabels()]


def limits(figure: Figure) -> tuple[float, float]:
    figure.draw_without_rendering()
    return figure.axes[0].get_xlim()


def curves(figure: Figure) -> list[Any]:
    return list(figure.axes[0].get_lines())


def test_bars_are_as_long_as_their_values_and_start_at_zero() -> None:
    figure = phase_bars([PhaseBar("update", 8.0, 2.0), PhaseBar("act", 4.0, 1.0)])
    wall, cpu = bars(figure, WALL), bars(figure, CPU)
    assert [bar.get_width() for bar in wall + cpu] == [8.0, 4.0, 2.0, 1.0]
    assert {bar.get_x() for bar in wall + cpu} == {0}
    assert limits(figure)[0] == 0
    assert limits(figure)[1] > 8.0
    # The axis runs downward: wall above CPU, the first phase above the second.
    assert figure.axes[0].yaxis_inverted()
    assert wall[0].get_y() < cpu[0].get_y() < wall[1].get_y()
    assert names(figure) == ["update", "act"]
    values = [text.get_text() for text in figure.axes[0].texts]
    assert values == ["8.00", "4.00", "2.00", "1.00"]


def test_phases_without_time_have_bars_without_length() -> None:
    figure = phase_bars([PhaseBar("a", 0.0, 0.0)])
    assert [bar.get_width() for bar in figure.axes[0].patches] == [0, 0]
    assert limits(figure) == (0, 1)
    assert phase_bars([]).axes[0].patches[:] == []


def test_intervals_lie_on_a_logarithmic_axis() -> None:
    rows = [Interval("twice", 2.0, 1.0, 4.0, "good"), Interval("half", 0.5, 0.25, 1.0, "bad")]
    figure = experiment_intervals(rows)
    (ax,) = figure.axes
    assert ax.get_xscale() == "log"
    assert [line.get_color() for line in dots(figure)] == [GOOD, BAD]
    assert [line.get_xdata()[0] for line in dots(figure)] == [2.0, 0.5]
    assert [list(line.get_xdata()) for line in strokes(figure)] == [[1.0, 4.0], [0.25, 1.0]]
    assert set(ax.get_lines()[0].get_xdata()) == {1.0}
    assert names(figure) == ["twice", "half"]
    assert ax.yaxis_inverted()
    assert limits(figure) == pytest.approx((0.25 / 1.02, 4.0 * 1.02))


@pytest.mark.parametrize(("low", "high"), [(0.0, float("inf")), (0.0, 3.0), (1.5, float("inf"))])
def test_an_interval_without_ends_reaches_the_edges_of_the_chart(low: float, high: float) -> None:
    figure = experiment_intervals([Interval("a", 2.0, low, high, "plain")])
    left, right = limits(figure)
    begin, end = strokes(figure)[0].get_xdata()
    assert left <= begin < 2.0 < end <= right
    if low == 0:
        assert begin == left
    if high == float("inf"):
        assert end == right
    assert dots(figure)[0].get_color() == SOFT


@pytest.mark.parametrize(
    ("low", "high"), [(0.88, 1.12), (0.5, 3.0), (0.2, 9.0), (0.01, 1e4), (1e-9, 1e9)]
)
def test_factor_ticks_are_few_and_round(low: float, high: float) -> None:
    figure = experiment_intervals([Interval("a", 1.0, low, high, "plain")])
    left, right = limits(figure)
    found = [tick for tick in figure.axes[0].get_xticks() if left <= tick <= right]
    assert 2 <= len(found) <= 9
    assert found == sorted(found)
    assert all(tick == pytest.approx(float(f"{tick:.3g}")) for tick in found)
    if high / low > 5:
        assert {round(10 ** (log10(tick) % 1)) % 10 for tick in found} <= {1, 2, 3, 5, 0}


def test_a_curve_starts_at_zero_and_goes_through_its_points() -> None:
    points = [(0.0, 0.0), (5.0, 50.0), (10.0, 100.0)]
    figure = history_curve("seconds", points)
    (line,) = curves(figure)
    assert np.transpose(line.get_data()).tolist() == [list(point) for point in points]
    (ax,) = figure.axes
    assert ax.get_xlim() == (0, 10)
    assert ax.get_ylim() == pytest.approx((0, 105))
    assert ax.get_xlabel() == "seconds"


def test_a_curve_that_hardly_changes_looks_flat_and_one_that_grows_does_not() -> None:
    flat = history_curve("s", [(0.0, 1000.0), (1.0, 1001.0)], from_zero=False).axes[0].get_ylim()
    steep = history_curve("s", [(0.0, 500.0), (1.0, 1000.0)], from_zero=False).axes[0].get_ylim()
    assert 0 < 1 / (flat[1] - flat[0]) < 0.03
    assert 500 / (steep[1] - steep[0]) > 0.8


def test_a_curve_has_gaps_where_nothing_was_measured() -> None:
    seen = [(float(x), 1.0) for x in (*range(1, 20), *range(500, 505), 900)]
    assert [len(line.get_xdata()) for line in curves(history_curve("s", seen))] == [19, 5, 1]


@pytest.mark.parametrize("from_zero", [True, False])
@pytest.mark.parametrize(
    "values",
    [[], [(0.0, 0.0)], [(3.0, -2.0)], [(1.0, float("nan")), (2.0, float("inf")), (3.0, 7.0)]],
)
def test_curves_of_a_single_point_can_be_drawn(
    values: list[tuple[float, float]], from_zero: bool
) -> None:
    figure = history_curve("s", values, from_zero=from_zero)
    figure.draw_without_rendering()
    (line,) = curves(figure)
    assert len(line.get_xdata()) == 1
    assert np.isfinite(line.get_data()).all()
    assert line.get_marker() == "o"


def test_long_names_are_cut() -> None:
    long = "a name of far more words than fit"
    assert names(phase_bars([PhaseBar(long, 1.0, 1.0)])) == ["a name of far more words than…"]
    assert names(experiment_intervals([Interval("short", 1.0, 0.9, 1.1, "good")])) == ["short"]
