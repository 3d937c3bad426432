"""Grids as text (`ansi`) and as images (`rgb`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from briskrl.envs.ordered_visit.config import OrderedVisitConfig
from briskrl.envs.ordered_visit.kernels import step as k
from briskrl.envs.ordered_visit.layout import hidden_order

FREE, WALL, PLAYER = (24, 30, 42), (90, 104, 130), (62, 214, 142)
OPEN, VISITED = (235, 178, 92), (70, 64, 52)
_LETTERS = "ABCD"


@dataclass(frozen=True, slots=True)
class Grid:
    """One grid in plain numbers."""

    walls: NDArray[np.bool_]
    """(side, side), by line and column."""
    regions: NDArray[np.int64]
    """(side, side): the region of each cell, or -1."""
    visited: tuple[bool, ...]
    x: int
    y: int
    steps: int
    right: int
    hidden: str


def read_grid(row: NDArray[np.uint64], config: OrderedVisitConfig) -> Grid:
    """What a row of memory says."""
    side, size = config.side, config.region_size
    lines = row[k.WALLS : k.WALLS + side]
    walls = (lines[:, None] >> np.arange(side, dtype=np.uint64)) & np.uint64(1)
    regions = np.full((side, side), -1)
    for region in range(config.regions):
        down = slice(side - size, side) if region & 2 else slice(size)
        across = slice(side - size, side) if region & 1 else slice(size)
        regions[down, across] = region
    shorts, ints = row.view(np.int16), row.view(np.int32)
    mask = int(shorts[k.VISITED])
    return Grid(
        walls=walls.astype(np.bool_),
        regions=regions,
        visited=tuple(bool(mask >> region & 1) for region in range(config.regions)),
        x=int(shorts[k.X]),
        y=int(shorts[k.Y]),
        steps=int(ints[k.STEPS]),
        right=int(ints[k.RIGHT]),
        hidden=str(hidden_order(config)),
    )


def ansi(grid: Grid) -> str:
    """The grid as framed text: A to D are regions, in lower case once visited."""
    cells = np.where(grid.walls, "#", " ")
    for region, visited in enumerate(grid.visited):
        letter = _LETTERS[region]
        cells[grid.regions == region] = letter.lower() if visited else letter
    cells[grid.y, grid.x] = "@"
    frame = "+" + "-" * len(cells) + "+"
    lines = ["|" + "".join(line) + "|" for line in cells]
    numbers = f"step {grid.steps}  visited {sum(grid.visited)}, in order {grid.right}"
    return "\n".join([frame, *lines, frame, numbers, f"order {grid.hidden}"])


def rgb(grid: Grid, cell_px: int = 12) -> NDArray[np.uint8]:
    """The grid as an image (side * cell_px, side * cell_px, 3)."""
    image = np.where(grid.walls[..., None], np.array(WALL), np.array(FREE)).astype(np.uint8)
    for region, visited in enumerate(grid.visited):
        image[grid.regions == region] = VISITED if visited else OPEN
    image[grid.y, grid.x] = PLAYER
    return image.repeat(cell_px, axis=0).repeat(cell_px, axis=1)
