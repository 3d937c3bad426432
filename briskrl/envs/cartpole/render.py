"""Carts and poles as text (`ansi`) and as images (`rgb`)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from briskrl.envs.cartpole.kernels.step import HALF_POLE, X_LIMIT

SKY, GROUND = (24, 30, 42), (36, 44, 60)
TRACK, EDGE = (90, 104, 130), (255, 92, 92)
"""The line the cart runs on, and the marks where it ends."""
CART, POLE, AXLE = (62, 214, 142), (235, 178, 92), (24, 30, 42)

_COLUMNS = 49
"""Columns of text, one per tenth of a unit: the track is 4.8 units long."""
_ROWS = 5
"""Rows of text that an upright pole takes."""
_UNIT_CELLS = 10
_SIDE_CELLS, _ABOVE_CELLS, _BELOW_CELLS = 3, 13, 3
"""Margins of an image around the track, in cells: the pole is ten cells long."""


def ansi(x: float, angle: float, steps: int) -> str:
    """The track as framed text, the cart as a double line; the last line has the numbers."""
    middle = _column(x)
    lines = np.full((_ROWS + 1, _COLUMNS), " ")
    sign = "|" if abs(angle) < 0.03 else "/" if angle > 0 else "\\"
    # Characters are about twice as high as wide, so a pole of ten columns is five rows high.
    for row in range(1, _ROWS + 1):
        along = 2 * HALF_POLE * row / _ROWS
        lines[_ROWS - row, _column(x + along * math.sin(angle))] = sign
    lines[_ROWS, max(middle - 1, 0) : middle + 2] = "="
    frame = "+" + "-" * _COLUMNS + "+"
    rows = ["|" + "".join(line) + "|" for line in lines]
    numbers = f"position {x:+.2f}  angle {math.degrees(angle):+.1f}  steps {steps}"
    return "\n".join([frame, *rows, frame, numbers])


def _column(x: float) -> int:
    return min(max(round((x + X_LIMIT) * _UNIT_CELLS), 0), _COLUMNS - 1)


def rgb(x: float, angle: float, cell_px: int = 8) -> NDArray[np.uint8]:
    """The track as an image (19*cell_px, 54*cell_px, 3); a cell is a tenth of a unit."""
    shape = (_ABOVE_CELLS + _BELOW_CELLS + 3, round(2 * X_LIMIT * _UNIT_CELLS) + 2 * _SIDE_CELLS)
    # Where pixels are, in units: right of the middle of the track, and above its line.
    down, right = np.ogrid[: shape[0] * cell_px, : shape[1] * cell_px]
    unit = cell_px * _UNIT_CELLS
    across = (right + 0.5) / unit - X_LIMIT - _SIDE_CELLS / _UNIT_CELLS
    above = (_ABOVE_CELLS + 1.5) / _UNIT_CELLS - (down + 0.5) / unit
    image = np.empty((*np.broadcast_shapes(across.shape, above.shape), 3), np.uint8)
    image[:] = np.where(above[..., None] > 0, np.array(SKY), np.array(GROUND))
    half = max(0.5 / unit, 0.01)
    image[(np.abs(above) <= half) & (np.abs(across) <= X_LIMIT)] = TRACK
    image[(np.abs(above) <= 0.1) & (np.abs(np.abs(across) - X_LIMIT) <= half)] = EDGE
    image[(np.abs(across - x) <= 0.2) & (np.abs(above - 0.06) <= 0.1)] = CART
    # Coordinates along the pole and beside it; the axle is at the top of the cart.
    rise, aside = above - 0.16, across - x
    along = rise * math.cos(angle) + aside * math.sin(angle)
    beside = aside * math.cos(angle) - rise * math.sin(angle)
    image[(along >= 0) & (along <= 2 * HALF_POLE) & (np.abs(beside) <= 0.04)] = POLE
    image[rise**2 + aside**2 <= 0.035**2] = AXLE
    return image
