"""Snake boards as text (`ansi`) and as images (`rgb`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import Ints

GROUND = (24, 30, 42), (29, 36, 50)
"""The two shades of the checkered board."""
NECK, TAIL = (62, 214, 142), (22, 104, 116)
"""The body fades from the first color behind the head to the second at the tail."""
HEAD = (190, 255, 170)
FOOD = (255, 92, 92)
EYE = (24, 30, 42)


def ansi(body: Ints, food: int, shape: tuple[int, int], score: int, steps: int, hunger: int) -> str:
    """The board as framed text: H head, o body, t tail, * food; the last line has the counts."""
    cells = np.full(shape[0] * shape[1], ".")
    cells[body] = "o"
    cells[body[-1]] = "t"
    cells[body[0]] = "H"
    if food >= 0:
        cells[food] = "*"
    frame = "+" + "-" * shape[1] + "+"
    rows = ["|" + "".join(row) + "|" for row in cells.reshape(shape)]
    return "\n".join([frame, *rows, frame, f"score {score}  steps {steps}  hunger {hunger}"])


def rgb(body: Ints, food: int, shape: tuple[int, int], cell_px: int = 16) -> NDArray[np.uint8]:
    """The board as an image (H*cell_px, W*cell_px, 3); the body is one ribbon, head to tail."""
    width = shape[1]
    image = _ground(shape, cell_px)
    gap = max(1, cell_px // 10) if cell_px >= 5 else 0
    rows, cols = np.divmod(body, width)
    shades = np.linspace(NECK, TAIL, len(body)).astype(np.uint8)
    for i in range(len(body) - 1, 0, -1):
        _ribbon(image, (rows[i], cols[i]), (rows[i - 1], cols[i - 1]), cell_px, gap, shades[i])
    _block(image, rows[0], cols[0], cell_px, gap, HEAD)
    _eyes(image, (rows[0], cols[0]), (rows[0] - rows[1], cols[0] - cols[1]), cell_px)
    if food >= 0:
        _disc(image, *divmod(food, width), cell_px)
    return image


def _ground(shape: tuple[int, int], cell_px: int) -> NDArray[np.uint8]:
    chequers = np.add.outer(np.arange(shape[0]), np.arange(shape[1])) % 2
    small: NDArray[np.uint8] = np.array(GROUND, np.uint8)[chequers]
    return small.repeat(cell_px, axis=0).repeat(cell_px, axis=1)


def _block(
    image: NDArray[np.uint8],
    row: int,
    col: int,
    cell_px: int,
    gap: int,
    color: tuple[int, int, int] | NDArray[np.uint8],
) -> None:
    top, left = row * cell_px, col * cell_px
    image[top + gap : top + cell_px - gap, left + gap : left + cell_px - gap] = color


def _ribbon(
    image: NDArray[np.uint8],
    cell: tuple[int, int],
    ahead: tuple[int, int],
    cell_px: int,
    gap: int,
    color: NDArray[np.uint8],
) -> None:
    """A body cell, joined with the one ahead of it across the gap between them."""
    (top, bottom), (left, right) = (
        sorted((a * cell_px, b * cell_px)) for a, b in zip(cell, ahead, strict=True)
    )
    image[top + gap : bottom + cell_px - gap, left + gap : right + cell_px - gap] = color


def _eyes(
    image: NDArray[np.uint8], head: tuple[int, int], way: tuple[int, int], cell_px: int
) -> None:
    if cell_px < 8:
        return
    size = max(1, cell_px // 8)
    middle = np.array(head) * cell_px + (cell_px - size) / 2
    for side in (-1, 1):
        across = np.array((way[1], way[0])) * side
        top, left = (middle + (np.array(way) * 0.8 + across) * cell_px / 5).round().astype(int)
        image[top : top + size, left : left + size] = EYE


def _disc(image: NDArray[np.uint8], row: int, col: int, cell_px: int) -> None:
    offsets = np.arange(cell_px) - (cell_px - 1) / 2
    inside = np.add.outer(offsets**2, offsets**2) <= max(0.5, (cell_px * 0.36) ** 2)
    area = image[row * cell_px : (row + 1) * cell_px, col * cell_px : (col + 1) * cell_px]
    area[inside] = FOOD
