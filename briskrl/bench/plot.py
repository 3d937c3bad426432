"""Curves with bands as a picture in SVG, written by hand: no plotting library is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

COLOURS = ("#7a7a7a", "#2060b0", "#2f9e44", "#e07b00", "#c92a2a", "#7048e8", "#0b7285", "#a61e4d")
WIDTH, HEIGHT = 460, 320
LEFT, TOP, RIGHT, BOTTOM = 56, 48, 14, 46
"""What is left free around the curves of a panel, for words."""
LETTER, GAP = 8, 12
"""Width of a letter of the legend, and what lies between its names."""
TICKS = 5
NEAREST = 34
"""Distance of ticks of a logarithmic axis."""
DECADES = 2.5
"""Length of a logarithmic axis; whatever lies before it is drawn at its beginning."""
ROOM = 0.25
"""Height above the highest curve, as a share of the rest."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve; `low` and `high` are the edges of its band."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """Some curves with axes of their own; x must be above 0 if its axis is logarithmic."""

    title: str
    x_name: str
    y_name: str
    lines: Sequence[Line]
    log_x: bool = False
    mark: float | None = None
    """Where a dashed line goes across."""


def picture(panels: Sequence[Panel]) -> str:
    """The panels side by side as one SVG document."""
    width = WIDTH * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{HEIGHT}" fill="white"/>',
    ]
    for index, panel in enumerate(panels):
        parts += [f'<g transform="translate({WIDTH * index} 0)">', *_draw(panel), "</g>"]
    return "\n".join([*parts, "</svg>\n"])


class _Frame:
    """Where values lie in a panel."""

    def __init__(self, panel: Panel) -> None:
        edges = [value for line in panel.lines for value in line.y]
        edges += [] if panel.mark is None else [panel.mark]
        self._log = panel.log_x
        spots = [self._scaled(value) for line in panel.lines for value in line.x]
        self.last = max(spots)
        self.first = max(min(spots), self.last - DECADES) if self._log else 0.0
        self.lowest = min(0.0, *edges)
        # Bands are cut off at the frame, so that a wide one does not press the curves flat.
        self.highest = max(edges) + ROOM * (max(edges) - self.lowest)
        # A panel of nothing but one value still has a height and a width.
        self.highest = self.highest if self.highest > self.lowest else self.lowest + 1.0
        self.last = self.last if self.last > self.first else self.first + 1.0

    def x(self, value: float) -> float:
        part = (max(self._scaled(value), self.first) - self.first) / (self.last - self.first)
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        inside = min(max(value, self.lowest), self.highest)
        part = (inside - self.lowest) / (self.highest - self.lowest)
        return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)

    def x_ticks(self) -> list[float]:
        if not self._log:
            return ticks(self.first, self.last)
        low, high = 10**self.first, 10**self.last
        powers = range(floor(self.first), floor(self.last) + 1)
        marks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
        found: list[float] = []
        for mark in marks:
            inside = low * 0.999 <= mark <= high * 1.001
            if inside and (not found or self.x(mark) - self.x(found[-1]) >= NEAREST):
                found.append(mark)
        return found

    def _scaled(self, value: float) -> float:
        return log10(value) if self._log else value


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`, about TICKS of them."""
    raw = (high - low) / TICKS
    power = 10.0 ** floor(log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first = int(-(-low // step))
    return [step * index for index in range(first, int(high / step + 1e-9) + 1)]


def _draw(panel: Panel) -> Iterator[str]:
    frame = _Frame(panel)
    yield from _axes(panel, frame)
    for line, colour in zip(panel.lines, _colours(), strict=False):
        upper, lower = _points(frame, line.x, line.high), _points(frame, line.x, line.low)
        yield f'<polygon points="{" ".join(upper + lower[::-1])}" fill="{colour}" opacity="0.15"/>'
        middle = " ".join(_points(frame, line.x, line.y))
        yield f'<polyline points="{middle}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield from _legend(panel)


def _points(frame: _Frame, xs: Sequence[float], ys: Sequence[float]) -> list[str]:
    return [f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in zip(xs, ys, strict=True)]


def _axes(panel: Panel, frame: _Frame) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="18" font-size="13">{escape(panel.title)}</text>'
    for value in ticks(frame.lowest, frame.highest):
        y = frame.y(value)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>'
    bottom = HEIGHT - BOTTOM
    for value in frame.x_ticks():
        x = frame.x(value)
        yield f'<path d="M{x:.1f} {bottom}v4" stroke="black"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{short(value)}</text>'
    if panel.mark is not None:
        y = frame.y(panel.mark)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="black" stroke-dasharray="4 4"/>'
    yield f'<path d="M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}" stroke="black" fill="none"/>'
    middle = (LEFT + WIDTH - RIGHT) // 2
    yield f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(panel.x_name)}</text>'
    yield (
        f'<text transform="translate(14 {(TOP + bottom) // 2}) rotate(-90)" '
        f'text-anchor="middle">{escape(panel.y_name)}</text>'
    )


def _legend(panel: Panel) -> Iterator[str]:
    x = LEFT
    for line, colour in zip(panel.lines, _colours(), strict=False):
        yield (
            f'<text x="{x}" y="36" fill="{colour}" font-weight="bold">{escape(line.name)}</text>'
        )
        x += GAP + LETTER * len(line.name)


def _colours() -> Iterator[str]:
    while True:
        yield from COLOURS


def short(value: float) -> str:
    """A tick's number: 0.5, 20, 400k, 2M."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"
