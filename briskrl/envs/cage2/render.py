"""The network as an image: zones, true access, what blue believes, decoys and the last actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2 import text_render as telling
from briskrl.envs.cage2.ground_truth import Truth

WIDTH, HEIGHT = 40, 27
"""Size of a frame in units."""
GROUND, PANEL, INK, FAINT = (24, 30, 42), (32, 40, 56), (226, 232, 240), (120, 132, 150)
ACCESS = ((52, 64, 84), (196, 132, 36), (200, 58, 58))
"""Fill of a host by red's true access: none, user, privileged."""
BELIEF = ((74, 88, 112), (150, 150, 160), (255, 196, 84), (255, 110, 110))
"""Frame of a host by blue's table: No, Unknown, User, Privileged."""
DECOY, BLUE, RED, SCAN = (94, 214, 170), (92, 168, 255), (255, 84, 84), (240, 220, 110)
ZONES = {"User": 0, "Enterprise": 1, "Operational": 2}
_BOX_W, _BOX_H = 11.6, 3.2


def rgb(truth: Truth, shown: int, length: int, unit: int = 16) -> NDArray[np.uint8]:
    """One network as an image (27*unit, 40*unit, 3).

    Args:
        truth: The true state of the network.
        shown: The 52 bits that blue saw, as a number.
        length: Steps of an episode.
        unit: Pixels per unit.
    """
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (WIDTH * unit, HEIGHT * unit), GROUND)
    brush = _Brush(ImageDraw.Draw(image), unit)
    for zone, column in ZONES.items():
        brush.panel(0.5 + 13.2 * column, 2.2, 12.6, 19.4, zone)
    blue, red = _last_targets(truth)
    for index, place in _places().items():
        _draw_host(brush, truth, shown, index, place, at_work=(index == blue, index == red))
    _draw_words(brush, truth, length)
    return np.asarray(image, np.uint8)


class _Brush:
    """Draws in units instead of pixels."""

    def __init__(self, draw: Any, unit: int) -> None:
        from PIL import ImageFont

        self._draw, self._unit = draw, unit
        self._font = ImageFont.load_default(size=max(6, unit * 0.85))

    def text(self, x: float, y: float, words: str, colour: tuple[int, int, int]) -> None:
        self._draw.text((x * self._unit, y * self._unit), words, colour, font=self._font)

    def box(
        self,
        place: tuple[float, float, float, float],
        fill: tuple[int, int, int],
        frame: tuple[int, int, int] | None = None,
        width: float = 0.2,
    ) -> None:
        x, y, w, h = (number * self._unit for number in place)
        thick = max(1, round(width * self._unit))
        self._draw.rounded_rectangle(
            (x, y, x + w, y + h), self._unit * 0.4, fill, frame, thick if frame else 0
        )

    def disc(self, x: float, y: float, radius: float, colour: tuple[int, int, int]) -> None:
        unit = self._unit
        box = ((x - radius) * unit, (y - radius) * unit, (x + radius) * unit, (y + radius) * unit)
        self._draw.ellipse(box, colour)

    def panel(self, x: float, y: float, w: float, h: float, name: str) -> None:
        self.box((x, y, w, h), PANEL)
        self.text(x + 0.5, y + 0.2, name, FAINT)


def _places() -> dict[int, tuple[float, float]]:
    """The upper left corner of every host."""
    filled = dict.fromkeys(ZONES, 0)
    places = {}
    for index, host in enumerate(s.HOSTS):
        row = filled[host.subnet]
        filled[host.subnet] += 1
        places[index] = (1.0 + 13.2 * ZONES[host.subnet], 3.8 + 3.5 * row)
    return places


def _draw_host(
    brush: _Brush,
    truth: Truth,
    shown: int,
    index: int,
    place: tuple[float, float],
    *,
    at_work: tuple[bool, bool],
) -> None:
    x, y = place
    frame = BELIEF[truth.compromise[0, index]]
    brush.box((x, y, _BOX_W, _BOX_H), ACCESS[truth.access[0, index]], frame)
    brush.text(x + 0.5, y + 0.3, s.HOST_NAMES[index], INK)
    for number in range(min(8, int(truth.decoys[0, index].sum()))):
        brush.disc(x + 0.9 + 0.8 * number, y + 2.3, 0.3, DECOY)
    seen = telling.activity_of(shown, index)
    if seen:
        brush.text(x + 7.6, y + 1.6, telling.ACTIVITY[seen], SCAN)
    for at, (acts, colour) in enumerate(zip(at_work, (BLUE, RED), strict=True)):
        if acts:
            brush.disc(x + _BOX_W - 0.8 - 1.1 * at, y + 0.8, 0.45, colour)


def _last_targets(truth: Truth) -> tuple[int, int]:
    """Hosts that blue and red acted on in the last step; -1 for none."""
    action = int(truth.blue_action[0])
    blue = (action - 2) % s.NUM_HOSTS if action >= 2 else -1
    red = int(truth.red_target[0]) if truth.red_action[0] >= 2 else -1
    return blue, red


def _draw_words(brush: _Brush, truth: Truth, length: int) -> None:
    agent = telling.AGENTS[truth.red_agent[0]]
    head = f"step {truth.steps[0]} of {length}   against {agent}   total {truth.returns[0]:.1f}"
    brush.text(0.8, 0.6, head, INK)
    blue, green, red = telling.story(truth)
    brush.text(0.8, 22.2, blue, BLUE)
    brush.text(0.8, 23.5, red, RED)
    service = "running" if truth.ot_running[0] else "DOWN"
    line = f"{green}   reward {telling.reward(truth):.1f}   operational service {service}"
    brush.text(0.8, 24.8, line, INK)
