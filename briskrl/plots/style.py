"""The one look of all charts, and how they become files or inline SVG."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briskrl.core.format import strip_control_chars

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Figure

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7280")
"""Colors of curves in order; distinct with any kind of color vision (Okabe and Ito 2008)."""
INK, SOFT, LINE, PAPER = "#1c2430", "#5c6675", "#d9dde3", "#ffffff"
"""Text, axes, grid and background."""
WALL, CPU, GOOD, BAD = "#2060b0", "#e07b00", "#2b8a3e", "#c92a2a"
"""Wall time and CPU time; faster and slower."""
CSS_COLORS = {
    INK: "var(--ink)",
    SOFT: "var(--soft)",
    LINE: "var(--line)",
    WALL: "var(--wall)",
    CPU: "var(--cpu)",
    GOOD: "var(--good)",
    BAD: "var(--bad)",
}
"""Variables of the page that inline SVG takes its colors from, so that it suits light and dark."""
POINTS_PER_INCH = 72
TAG = re.compile(r"<[^>]*>")
"""A tag of matplotlib's SVG: text is escaped, so every "<" begins a tag and every ">" ends one."""
PNG_DPI = 120

_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": SOFT,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.labelsize": "medium",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
    "figure.facecolor": PAPER,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    # The same chart is the same file, byte for byte; its text stays text.
    "svg.fonttype": "none",
    "svg.hashsalt": "briskrl",
    "text.color": INK,
    # Names come from users: a dollar sign is a dollar sign.
    "text.parse_math": False,
    "xtick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.color": SOFT,
    "ytick.labelcolor": INK,
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in the house style inside this context; the global rcParams are restored after it."""
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # The viewer's fonts may have glyphs that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def new_figure(
    width: float,
    height: float,
    *,
    rows: int = 1,
    columns: int = 1,
    widths: Sequence[float] | None = None,
) -> tuple[Figure, list[Axes]]:
    """A figure of `width` by `height` points with its axes in reading order.

    `widths` are those of the columns, in any unit; by default they are equal.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / POINTS_PER_INCH, height / POINTS_PER_INCH))
    return figure, list(figure.subplots(rows, columns, squeeze=False, width_ratios=widths).flat)


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as SVG, PNG or PDF, whichever the file name ends in.

    Raises:
        OSError: The file cannot be written.
    """
    kind = Path(path).suffix.removeprefix(".").lower()
    if kind == "svg":
        Path(path).write_text(_as_svg(figure, {}), encoding="utf-8")
        return
    buffer = io.BytesIO()
    metadata = {"Software": None} if kind == "png" else {"CreationDate": None}
    with style():
        figure.savefig(buffer, format=kind, dpi=PNG_DPI, metadata=metadata)
    Path(path).write_bytes(buffer.getvalue())


def inline_svg(figure: Figure, title: str) -> str:
    """A figure as an `<svg>` element for an HTML page that defines the variables of CSS_COLORS.

    The element has no size of its own and no background. Artists with a gid become groups with
    that class; other ids are left out, because ids of several charts on one page would clash.
    """
    text = _as_svg(figure, {"Title": strip_control_chars(title)}, transparent=True)
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    return re.sub(TAG, lambda tag: _inline_tag(tag.group()), text).strip()


def short_number(value: float, _position: object = None) -> str:
    """A number at a tick: 0.5, 20, 400k, 2M."""
    # Multiples of a step such as 0.3 carry the errors of their last binary digits.
    rounded = round(value, 9)
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if abs(rounded) >= limit:
            return f"{rounded / limit:g}{unit}"
    return f"{rounded:g}"


def set_linear_ticks(axis: Axis) -> None:
    """At most seven round numbers, written short."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(short_number))


def _as_svg(figure: Figure, metadata: dict[str, Any], *, transparent: bool = False) -> str:
    """The `<svg>` element of a figure, with coordinates to a hundredth of a point."""
    buffer = io.StringIO()
    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None, **metadata}
    with style():
        figure.savefig(buffer, format="svg", transparent=transparent, metadata=metadata)
    text = buffer.getvalue()
    text = re.sub(TAG, lambda tag: _shorten_tag(tag.group()), text[text.index("<svg") :])
    return re.sub(r"\s*\n\s*", "\n", text)


def _shorten_tag(tag: str) -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", re.sub(r"\s+", " ", tag))


def _inline_tag(tag: str) -> str:
    """One tag of matplotlib's SVG as it may stand in a page."""
    if tag.startswith("<svg"):
        view = re.search(r'viewBox="[^"]*"', tag)
        names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        return f'<svg {names} {view.group() if view else ""} role="img">'
    if tag.startswith("<g id="):
        # Names that end in a number are matplotlib's own.
        tag = re.sub(r' id="[^"]*_\d+"', "", tag).replace(" id=", " class=")
    for color, variable in CSS_COLORS.items():
        tag = tag.replace(color, variable)
    return tag
