"""Pictures written by hand."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from briskrl.bench.config import RatioBench
from briskrl.bench.learning import Curve
from briskrl.bench.plot import HEIGHT, WIDTH, Line, Panel, picture, short, ticks
from briskrl.bench.ratio import RatioRun, summarize
from briskrl.bench.ratio_plot import check_plot, draw, write_plot
from briskrl.core.errors import ConfigError

SVG = "{http://www.w3.org/2000/svg}"


def points(element: ElementTree.Element) -> list[tuple[float, float]]:
    pairs = (pair.split(",") for pair in element.attrib["points"].split())
    return [(float(x), float(y)) for x, y in pairs]


@pytest.mark.parametrize("log_x", [False, True])
def test_curves_lie_inside_their_bands_and_panels(log_x: bool) -> None:
    line = Line("a < b", [1, 10, 100], [1, 3, 2], [0, 2, 1], [2, 4, 3])
    root = ElementTree.fromstring(picture([Panel("t", "x", "y", [line], log_x=log_x, mark=5)] * 2))
    curves, bands = root.findall(f".//{SVG}polyline"), root.findall(f".//{SVG}polygon")
    assert len(curves) == len(bands) == 2
    middle, edge = points(curves[0]), points(bands[0])
    for (x, y), (above_x, above), (below_x, below) in zip(
        middle, edge[:3], edge[:2:-1], strict=True
    ):
        assert x == above_x == below_x
        assert above < y < below
        assert 0 < x < WIDTH
        assert 0 < above < below < HEIGHT
    if log_x:
        assert middle[1][0] - middle[0][0] == pytest.approx(middle[2][0] - middle[1][0], abs=0.2)
    assert "a < b" in [text.text for text in root.iter(f"{SVG}text")]


def test_a_single_flat_point_can_be_drawn() -> None:
    root = ElementTree.fromstring(picture([Panel("t", "x", "y", [Line("a", [1], [0], [0], [0])])]))
    assert "t" in [text.text for text in root.iter(f"{SVG}text")]


def test_ticks_are_round_and_inside() -> None:
    assert ticks(0, 500_000) == [0, 100_000, 200_000, 300_000, 400_000, 500_000]
    assert ticks(-3, 21) == [0, 5, 10, 15, 20]
    assert [short(value) for value in (0.5, 20, 400_000, 2.5e6)] == ["0.5", "20", "400k", "2.5M"]


def test_a_study_has_a_curve_per_preset_by_steps_and_by_time(tmp_path: Path) -> None:
    runs = [
        RatioRun("s", "snake", "dqn", preset, seed, Curve([10, 20], [1, 2 + seed], [1, 2], [1, 2]))
        for preset in ("debug", "fast")
        for seed in (0, 1)
    ]
    figures = summarize(runs, 20, RatioBench(seeds=2))
    assert len(ElementTree.fromstring(draw(figures)).findall(f".//{SVG}polyline")) == 4
    write_plot(figures, str(tmp_path / "a.svg"))
    assert (tmp_path / "a.svg").read_text() == draw(figures)


def test_pictures_that_cannot_be_written_are_refused_beforehand(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.svg"):
        check_plot(str(tmp_path / "a.png"))
    with pytest.raises(ConfigError, match="no folder"):
        check_plot(str(tmp_path / "missing" / "a.svg"))
