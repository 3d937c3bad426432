"""The look of charts and what they are written as."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest
from PIL import Image

from briskrl.plots import Line, Panel, draw_panels, history_curve, inline_svg, save
from briskrl.plots.style import CSS_COLORS, short_number

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</svg><script>alert('\"&')</script>$x$\x1b[2J\x00]]>"


def panel(name: str = "a") -> Panel:
    return Panel(name, name, name, [Line(name, [1, 2], [1, 2], [0, 1], [2, 3])])


def test_importing_the_package_does_not_import_matplotlib() -> None:
    code = "import sys, briskrl.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_drawing_leaves_the_global_style_alone(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    save(draw_panels([panel()]), tmp_path / "a.svg")
    assert dict(matplotlib.rcParams) == before


def test_drawing_does_not_import_pyplot(tmp_path: Path) -> None:
    code = (
        "import sys; from briskrl.plots import history_curve, save; "
        "save(history_curve('s', [(0, 1), (1, 2)]), sys.argv[1]); "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.svg")], check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_the_same_chart_is_the_same_file(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        save(draw_panels([panel()]), tmp_path / f"{name}.{suffix}")
    content = (tmp_path / f"a.{suffix}").read_bytes()
    assert content == (tmp_path / f"b.{suffix}").read_bytes()
    assert b"20" + b"26-" not in content
    assert len(content) < 40_000


def test_png_files_have_the_size_of_the_panels(tmp_path: Path) -> None:
    save(draw_panels([panel()] * 4, columns=3), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size == (3 * 330 * 120 // 72, 2 * 215 * 120 // 72)


def test_text_is_escaped_and_stays_text(tmp_path: Path) -> None:
    save(draw_panels([panel(HOSTILE), panel("b")]), tmp_path / "a.svg")
    inline = inline_svg(draw_panels([panel(HOSTILE)]), HOSTILE)
    for text in ((tmp_path / "a.svg").read_text(), inline):
        root = ElementTree.fromstring(text)
        assert f"{SVG}script" not in {item.tag for item in root.iter()}
        shown = ["".join(item.itertext()) for item in root.iter(f"{SVG}text")]
        assert any("<script>alert('\"&')</script>$x$" in line for line in shown)
        assert "\x1b" not in text
        assert "\x00" not in text


def test_inline_charts_take_their_colors_from_the_page() -> None:
    text = inline_svg(history_curve("seconds", [(0.0, 1.0), (1.0, 2.0)]), "Speed")
    assert not [color for color in CSS_COLORS if color in text]
    for variable in ("--ink", "--soft", "--line", "--wall"):
        assert f"var({variable})" in text


def test_inline_charts_have_a_title_a_view_box_and_no_size_or_ids_of_their_own() -> None:
    text = inline_svg(history_curve("seconds", [(0.0, 1.0), (1.0, 2.0)]), "Speed")
    assert text.startswith("<svg ")
    root = ElementTree.fromstring(text)
    assert root.findtext(f"{SVG}title") == "Speed"
    assert root.attrib.keys() == {"viewBox", "role"}
    assert not [item for item in root.iter(f"{SVG}g") if "id" in item.attrib]
    assert [item.get("class") for item in root.iter(f"{SVG}g") if "class" in item.attrib] == [
        "curve"
    ]


def test_ticks_are_written_short() -> None:
    numbers = (0.5, 20, 400_000, 2.5e6, 3 * 0.1)
    assert [short_number(value) for value in numbers] == ["0.5", "20", "400k", "2.5M", "0.3"]
