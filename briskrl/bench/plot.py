"""Curves with bands as a picture in SVG, written by hand: no plotting library is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

COLOURS = ("#7a7a7a", "#2060b0", "#2f9e44", "#e07b00", "#c92a2a", "#7048e8", "#0b7285", "#a61e4d")
WIDTH, HEIGHT = 460, 320
LEFT, TOP, RIGHT, BOTTOM = 56, 34, 14, 46
"""What is left free around the curves of a panel, for words."""
TICKS = 5


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
        edges = [value for line in panel.lines for value in (*line.low, *line.high)]
        edges += [] if panel.mark is None else [panel.mark]
        self._log = panel.log_x
        spots = [self._scaled(value) for line in panel.lines for value in line.x]
        self.first, self.last = (min(spots), max(spots)) if self._log else (0.0, max(spots))
        self.lowest, self.highest = min(0.0, *edges), max(edges)
        # A panel of nothing but one value still has a height and a width.
        self.highest += 0.05 * (self.highest - self.lowest) or 1.0
        self.last = self.last if self.last > self.first else self.first + 1.0

    def x(self, value: float) -> float:
        part = (self._scaled(value) - self.first) / (self.last - self.first)
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        part = (value - self.lowest) / (self.highest - self.lowest)
        return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)

    def x_ticks(self) -> list[float]:
        if not self._log:
            return ticks(self.first, self.last)
        low, high = 10**self.first, 10**self.last
        powers = range(floor(self.first), floor(self.last) + 1)
        marks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
        return [mark for mark in marks if low * 0.999 <= mark <= high * 1.001]

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
    names = [line.name for line in panel.lines]
    for index, (name, colour) in enumerate(zip(names, _colours(), strict=False)):
        y = HEIGHT - BOTTOM - 10 - 15 * (len(names) - 1 - index)
        yield (
            f'<text x="{WIDTH - RIGHT - 6}" y="{y}" text-anchor="end" fill="{colour}" '
            f'font-weight="bold">{escape(name)}</text>'
        )


def _colours() -> Iterator[str]:
    while True:
        yield from COLOURS


def short(value: float) -> str:
    """A tick's number: 0.5, 20, 400k, 2M."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"
