"""Plots of a report as SVG to stand in a page, which gives them their colours by class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, isfinite, log10
from statistics import median

from briskrl.bench.plot import short, ticks
from briskrl.core.format import figures
from briskrl.doctor.report.markup import element, said

WIDTH = 420
"""Of every plot; a page may scale it."""
NAMES = 118
"""Left of bars and intervals, for their names."""
VALUES = 52
"""Right of bars, for their values."""
ROW, BAR = 30, 10
"""Heights."""
TOP, BOTTOM = 8, 36
CURVE_HEIGHT, AXIS = 190, 52
"""A curve's plot, and what is left of it free for the numbers."""
LONGEST = 17
"""Characters of a name that fit."""
GAP = 10.0
"""Usual distances between two points of a curve that make a gap."""
NARROW = 4.0
"""Logarithmic axes with ends closer than so many times have ticks as a linear one has."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Two values of one thing, such as its wall and its CPU seconds."""

    name: str
    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A factor between the ends of its interval, all above 0; `kind` is its class in the page."""

    name: str
    factor: float
    low: float
    high: float
    kind: str


Scale = Callable[[float], float]


def bars(title: str, rows: Sequence[Bars]) -> str:
    """Two bars for each row, to the same scale from 0."""
    most = max((value for row in rows for value in (row.wall, row.cpu)), default=0.0)
    room = WIDTH - NAMES - VALUES
    parts = []
    for index, row in enumerate(rows):
        top = TOP + ROW * index
        parts.append(_name(row.name, top + 15))
        for kind, value, y in (("wall", row.wall, top + 3), ("cpu", row.cpu, top + 4 + BAR)):
            width = room * value / most if most > 0 else 0.0
            parts += [
                element("rect", class_=kind, x=NAMES, y=y, width=width, height=BAR),
                _text(figures(value), NAMES + width + 4, y + 8.5, "value"),
            ]
    return _plot(title, TOP + ROW * len(rows) + TOP, parts)


def intervals(title: str, rows: Sequence[Interval]) -> str:
    """Factors on a logarithmic axis, with a line where nothing changes."""
    first, last = _ends(rows)
    bottom = TOP + ROW * len(rows)
    room = WIDTH - NAMES - 16

    def x(value: float) -> float:
        inside = min(max(value, first), last)
        return NAMES + room * log10(inside / first) / log10(last / first)

    parts = [*_grid(x, factor_ticks(first, last), bottom)]
    parts.append(element("path", class_="one", d=f"M{x(1.0):.1f} {TOP}V{bottom}"))
    for index, row in enumerate(rows):
        y = TOP + ROW * index + ROW / 2
        parts += [
            _name(row.name, y + 4),
            element("path", class_=row.kind, d=f"M{x(row.low):.1f} {y:.1f}H{x(row.high):.1f}"),
            element("circle", class_=row.kind, cx=x(row.factor), cy=y, r=4),
        ]
    parts.append(_text("times as fast", NAMES + room / 2, bottom + 32, "middle"))
    return _plot(title, bottom + BOTTOM, parts)


def curve(
    title: str, x_name: str, points: Sequence[tuple[float, float]], *, from_zero: bool = True
) -> str:
    """A curve through points in order of x, with gaps where nobody looked.

    Points that are no numbers are left out.

    Args:
        title: What the values are.
        x_name: What they are plotted over.
        points: x and value.
        from_zero: Whether the axis of values begins at 0. If not, it spans at least a tenth of
            the largest value, so that a flat curve looks flat.
    """
    kept = [(x, y) for x, y in points if isfinite(x) and isfinite(y)] or [(0.0, 0.0)]
    right = max(x for x, _ in kept) or 1.0
    low, high = _span([y for _, y in kept], from_zero=from_zero)
    bottom = CURVE_HEIGHT - BOTTOM

    def x_at(value: float) -> float:
        return AXIS + (WIDTH - AXIS - 16) * value / right

    def y_at(value: float) -> float:
        return bottom - (bottom - TOP) * (value - low) / (high - low)

    parts = [*_grid(x_at, ticks(0.0, right), bottom), *_levels(y_at, ticks(low, high))]
    for piece in pieces(kept):
        path = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in piece)
        parts.append(element("polyline", class_="curve", points=path))
    parts.append(_text(x_name, (AXIS + WIDTH) / 2, bottom + 32, "middle"))
    return _plot(title, CURVE_HEIGHT, parts)


def pieces(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """The points between gaps, which are much wider than the usual distance of two points."""
    apart = [after[0] - before[0] for before, after in pairwise(points)]
    widest = GAP * median(apart) if apart else 0.0
    found = [[points[0]]]
    for point, distance in zip(points[1:], apart, strict=True):
        if distance > widest:
            found.append([])
        found[-1].append(point)
    return found


def factor_ticks(low: float, high: float) -> list[float]:
    """Round factors from `low` to `high` for a logarithmic axis, at most nine."""
    if high / low < NARROW:
        return ticks(low, high)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    for within in ((1, 2, 5), (1, 3), (1,)):
        found = [digit * 10.0**power for power in powers for digit in within]
        found = [value for value in found if low * 0.999 <= value <= high * 1.001]
        if len(found) <= 9:
            break
    return found[:: ceil(len(found) / 9)]


def _ends(rows: Sequence[Interval]) -> tuple[float, float]:
    """Ends of the axis: all factors and finite ends of intervals, 1, and some room."""
    values = [value for row in rows for value in (row.low, row.factor, row.high)]
    known = [value for value in values if value > 0 and isfinite(value)]
    # A span of a fifth keeps differences of a percent from looking like much.
    return min([*known, 0.9]) / 1.02, max([*known, 1.1]) * 1.02


def _span(values: Sequence[float], *, from_zero: bool) -> tuple[float, float]:
    """Ends of an axis of values."""
    low, high = min(values), max(values)
    if from_zero:
        return min(0.0, low), 1.05 * high if high > 0 else 1.0
    spare = max(0.0, 0.1 * abs(high) - (high - low)) / 2 + 0.05 * (high - low)
    return (low - spare, high + spare) if spare else (low - 1.0, high + 1.0)


def _grid(x: Scale, marks: Sequence[float], bottom: float) -> Iterator[str]:
    for value in marks:
        yield element("path", class_="grid", d=f"M{x(value):.1f} {TOP}V{bottom:.1f}")
        yield _text(_tick(value), x(value), bottom + 16, "middle")


def _levels(y: Scale, marks: Sequence[float]) -> Iterator[str]:
    for value in marks:
        yield element("path", class_="grid", d=f"M{AXIS} {y(value):.1f}H{WIDTH - 16}")
        yield _text(_tick(value), AXIS - 6, y(value) + 4, "end")


def _tick(value: float) -> str:
    # Multiples of a step such as 0.3 carry the errors of their last binary digits.
    return short(round(value, 9))


def _name(name: str, y: float) -> str:
    """A row's name, cut to what fits; the whole of it is shown where the pointer rests."""
    cut = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
    whole = element("title", said(name)) if cut != name else ""
    return element("text", whole, said(cut), class_="end", x=NAMES - 8, y=y)


def _text(text: str, x: float, y: float, kind: str) -> str:
    return element("text", said(text), class_=kind, x=x, y=y)


def _plot(title: str, height: float, parts: Sequence[str]) -> str:
    view = f"0 0 {WIDTH} {height:.0f}"
    space = "http://www.w3.org/2000/svg"
    label = element("title", said(title))
    return element("svg", label, *parts, xmlns=space, view_box=view, role="img")
