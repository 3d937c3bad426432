"""The directions in which fire spreads from cell to cell, and the cells that each crosses."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import hypot

import numpy as np
from numpy.typing import NDArray

MOVES = (
    *((-1, 0), (0, 1), (1, 0), (0, -1)),
    *((-1, 1), (1, 1), (1, -1), (-1, -1)),
    *((-2, 1), (-1, 2), (1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1)),
    *((-3, 1), (-1, 3), (1, 3), (3, 1), (3, -1), (1, -3), (-1, -3), (-3, -1)),
    *((-3, 2), (-2, 3), (2, 3), (3, 2), (3, -2), (2, -3), (-2, -3), (-3, -2)),
)
"""Rows and columns of each move; the first 8, 16 or 32 make a compass."""
Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Crossing:
    """The cells that a straight move crosses."""

    cells: tuple[Cell, ...]
    """Crossed cells from the source to the target, both included, relative to the source."""
    weights: tuple[float, ...]
    """Fraction of the distance in each of them."""
    corner: tuple[Cell, Cell] | None
    """The two cells beside a corner that the move passes through, if it does."""


@dataclass(frozen=True, slots=True)
class Compass:
    """K directions as arrays."""

    num_directions: int
    rows: NDArray[np.int64]
    """(K,)"""
    cols: NDArray[np.int64]
    """(K,)"""
    length: NDArray[np.float64]
    """(K,) in cells."""
    crossings: tuple[Crossing, ...]
    cuts: NDArray[np.int64]
    """(C, 3): a break at a cell stops direction k of the cell (row, col) away: row, col, k."""
    pinches: NDArray[np.int64]
    """(P, 5): the same if the cell (row2, col2) away is blocked too: row, col, row2, col2, k."""

    @property
    def reach(self) -> int:
        """The longest move along an axis."""
        return int(np.abs(self.rows).max())


@cache
def compass(num_directions: int, *, leaky_diagonals: bool = False) -> Compass:
    """8, 16 or 32 directions.

    Args:
        num_directions: K.
        leaky_diagonals: Let fire pass through the corner between two blocked cells.
    """
    moves = MOVES[:num_directions]
    crossings = tuple(_crossing(move) for move in moves)
    cuts, pinches = [], []
    for k, crossing in enumerate(crossings):
        cuts += [(-row, -col, k) for row, col in crossing.cells[1:]]
        if crossing.corner is not None and not leaky_diagonals:
            one, other = crossing.corner
            for (row, col), (row2, col2) in ((one, other), (other, one)):
                pinches.append((-row, -col, row2 - row, col2 - col, k))
    rows, cols = np.array(moves, np.int64).T
    return Compass(
        num_directions=num_directions,
        rows=rows,
        cols=cols,
        length=np.array([hypot(*move) for move in moves]),
        crossings=crossings,
        cuts=np.array(cuts, np.int64).reshape(-1, 3),
        pinches=np.array(pinches, np.int64).reshape(-1, 5),
    )


def _crossing(move: Cell) -> Crossing:
    """Follow the line from center to center across cell borders, exactly."""
    rows, cols = move
    marks = {Fraction(0), Fraction(1)}
    marks |= {Fraction(2 * i + 1, 2 * abs(rows)) for i in range(abs(rows))}
    marks |= {Fraction(2 * i + 1, 2 * abs(cols)) for i in range(abs(cols))}
    along = sorted(marks)
    cells, weights = [], []
    for begin, end in pairwise(along):
        middle = (begin + end) / 2
        cells.append((round(middle * rows), round(middle * cols)))
        weights.append(float(end - begin))
    corner = None
    for (row, col), (row2, col2) in pairwise(cells):
        if row != row2 and col != col2:
            corner = ((row, col2), (row2, col))
    return Crossing(tuple(cells), tuple(weights), corner)
