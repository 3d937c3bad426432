"""Plots of a report, by where their marks lie."""

from __future__ import annotations

from math import log
from xml.etree import ElementTree

import pytest

from briskrl.doctor.report.plots import (
    AXIS,
    NAMES,
    WIDTH,
    Bars,
    Interval,
    bars,
    curve,
    factor_ticks,
)
from briskrl.doctor.report.plots import intervals as interval_plot
from tests.doctor.report_fixtures import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"
Element = ElementTree.Element


def drawn(plot: str, name: str, kind: str = "") -> list[Element]:
    found = ElementTree.fromstring(plot).iter(f"{SVG}{name}")
    return [item for item in found if not kind or item.get("class") == kind]


def number(item: Element, name: str) -> float:
    return float(item.attrib[name])


def words(plot: str) -> list[str]:
    return ["".join(item.itertext()) for item in drawn(plot, "text")]


def ends(path: Element) -> tuple[float, float]:
    """Where a horizontal stroke such as M10.0 5.0H20.0 begins and ends."""
    begin, end = path.attrib["d"].removeprefix("M").split("H")
    return float(begin.split()[0]), float(end)


def points(plot: str) -> list[tuple[float, float]]:
    (line,) = drawn(plot, "polyline", "curve")
    pairs = (pair.split(",") for pair in line.attrib["points"].split())
    return [(float(x), float(y)) for x, y in pairs]


def test_bars_are_as_long_as_their_values_from_one_edge() -> None:
    plot = bars("t", [Bars("update", 8.0, 2.0), Bars("act", 4.0, 1.0)])
    wall, cpu = drawn(plot, "rect", "wall"), drawn(plot, "rect", "cpu")
    widths = [number(item, "width") for item in wall + cpu]
    assert widths == pytest.approx([widths[0] * part for part in (1, 0.5, 0.25, 0.125)], abs=0.06)
    assert {number(item, "x") for item in wall + cpu} == {NAMES}
    assert NAMES + widths[0] < WIDTH
    assert number(wall[0], "y") < number(cpu[0], "y") < number(wall[1], "y")
    assert words(plot) == ["update", "8.00", "2.00", "act", "4.00", "1.00"]


def test_bars_of_nothing_have_no_length() -> None:
    rects = drawn(bars("t", [Bars("a", 0.0, 0.0)]), "rect")
    assert [number(item, "width") for item in rects] == [0, 0]
    assert drawn(bars("t", []), "rect") == []


def test_intervals_lie_on_a_logarithmic_axis() -> None:
    rows = [Interval("twice", 2.0, 1.0, 4.0, "good"), Interval("half", 0.5, 0.25, 1.0, "bad")]
    plot = interval_plot("t", rows)
    (good,), (bad,) = drawn(plot, "circle", "good"), drawn(plot, "circle", "bad")
    (one,) = drawn(plot, "path", "one")
    middle = float(one.attrib["d"].removeprefix("M").split()[0])
    octave = number(good, "cx") - middle
    assert octave > 0
    assert number(bad, "cx") == pytest.approx(middle - octave, abs=0.2)
    (stroke,) = drawn(plot, "path", "good")
    assert ends(stroke) == pytest.approx((middle, middle + 2 * octave), abs=0.3)
    assert number(good, "cy") < number(bad, "cy")
    # The whole axis fits between the names and the edge.
    assert octave / log(2) * log(16.65) == pytest.approx(WIDTH - NAMES - 16, abs=1.0)


def test_ticks_of_factors_stand_where_their_factors_would() -> None:
    rows = [Interval("a", 4.0, 1.0, 10.0, "good")]
    plot = interval_plot("t", rows)
    spots = {text.text: number(text, "x") for text in drawn(plot, "text", "middle")}
    low, high = ends(drawn(plot, "path", "good")[0])
    assert (spots["1"], spots["10"]) == pytest.approx((low, high), abs=0.2)


@pytest.mark.parametrize(("low", "high"), [(0.0, float("inf")), (0.0, 3.0), (1.5, float("inf"))])
def test_an_interval_without_ends_reaches_the_edges_of_the_plot(low: float, high: float) -> None:
    plot = interval_plot("t", [Interval("a", 2.0, low, high, "plain")])
    begin, end = ends(drawn(plot, "path", "plain")[0])
    (dot,) = drawn(plot, "circle")
    assert NAMES <= begin < number(dot, "cx") < end <= WIDTH - 16
    if low == 0:
        assert begin == NAMES
    if high == float("inf"):
        assert end == WIDTH - 16


@pytest.mark.parametrize(
    ("low", "high"), [(0.88, 1.12), (0.5, 3.0), (0.2, 9.0), (0.01, 1e4), (1e-9, 1e9)]
)
def test_ticks_of_factors_are_few_and_inside(low: float, high: float) -> None:
    found = factor_ticks(low, high)
    assert 2 <= len(found) <= 9
    assert found == sorted(found)
    assert low * 0.999 <= found[0]
    assert found[-1] <= high * 1.001


def test_a_curve_begins_at_zero_and_goes_through_its_points() -> None:
    plot = curve("t", "seconds", [(0.0, 0.0), (5.0, 50.0), (10.0, 100.0)])
    (x0, y0), (x1, y1), (x2, y2) = points(plot)
    assert (x0, x2) == (AXIS, WIDTH - 16)
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1)
    zero = next(text for text in drawn(plot, "text", "end") if text.text == "0")
    assert number(zero, "y") - 4 == pytest.approx(y0, abs=0.1)
    assert y2 < y1 < y0
    assert "seconds" in words(plot)


def test_a_curve_that_hardly_changes_looks_flat_and_one_that_grows_does_not() -> None:
    flat = points(curve("t", "s", [(0.0, 1000.0), (1.0, 1001.0)], from_zero=False))
    steep = points(curve("t", "s", [(0.0, 500.0), (1.0, 1000.0)], from_zero=False))
    assert 0 < flat[0][1] - flat[1][1] < 5
    assert steep[0][1] - steep[1][1] > 100


def test_a_curve_has_gaps_where_nobody_looked() -> None:
    seen = [(float(x), 1.0) for x in (*range(1, 20), *range(500, 505), 900)]
    lines = drawn(curve("t", "s", seen), "polyline", "curve")
    assert [len(line.attrib["points"].split()) for line in lines] == [19, 5, 1]


@pytest.mark.parametrize("from_zero", [True, False])
@pytest.mark.parametrize(
    "values",
    [[], [(0.0, 0.0)], [(3.0, -2.0)], [(1.0, float("nan")), (2.0, float("inf")), (3.0, 7.0)]],
)
def test_curves_of_little_can_be_drawn(values: list[tuple[float, float]], from_zero: bool) -> None:
    plot = curve("t", "s", values, from_zero=from_zero)
    assert len(points(plot)) == 1
    assert "nan" not in plot
    assert "inf" not in plot


def test_names_stay_words_and_long_ones_are_cut() -> None:
    for plot in (
        bars(HOSTILE, [Bars(HOSTILE, 1.0, 1.0)]),
        interval_plot(HOSTILE, [Interval(HOSTILE, 1.0, 0.9, 1.1, "good")]),
        curve(HOSTILE, HOSTILE, [(0.0, 1.0)]),
    ):
        root = ElementTree.fromstring(plot)
        allowed = {"svg", "title", "rect", "text", "path", "circle", "polyline"}
        assert {item.tag.removeprefix(SVG) for item in root.iter()} <= allowed
        assert "<script>" in (root.findtext(f"{SVG}title") or "")
    name = drawn(bars("t", [Bars("a name of many words", 1.0, 1.0)]), "text")[0]
    assert name.findtext(f"{SVG}title") == "a name of many words"
    assert (name[0].tail or "") == "a name of many w…"
