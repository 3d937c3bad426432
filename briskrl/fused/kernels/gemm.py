"""Compiled products of matrices that are parts of flat arrays, and matrices turned."""

from __future__ import annotations

import math

from briskrl.compiler.jit import helper, inline_helper
from briskrl.fused.kernels.gemm_tile import WIDE, Matrix, ReluEpilogue, dots, tile
from briskrl.fused.kernels.transpose import transpose, transpose_edge

FULL, HALF = 64, 32
"""Bytes of vectors."""
BLOCK = 16
"""Rows and columns of the blocks by which matrices are turned."""
STRIP_ROWS = 4
"""Rows of a tile of the widest strips; divides the padding."""
DOT_ROWS = 4
"""Rows whose dot products are under way at once."""


def _strip(tile_rows, vectors, size):
    """A function that fills some columns of a product, `tile_rows` rows at a time."""

    def strip(c, rows, column, a, b, start, depth, ending):
        below = Matrix(b.numbers, b.at + column, b.row, 1)
        row = 0
        while row + tile_rows <= rows:
            tile(
                Matrix(c.numbers, c.at + row * c.row + column, c.row, 1),
                Matrix(a.numbers, a.at + row * a.row, a.row, a.step),
                below,
                Matrix(start.numbers, start.at + row * start.row + column, start.row, 1),
                depth,
                ending,
                tile_rows,
                vectors,
                size,
            )
            row += tile_rows
        while row < rows:
            tile(
                Matrix(c.numbers, c.at + row * c.row + column, c.row, 1),
                Matrix(a.numbers, a.at + row * a.row, a.row, a.step),
                below,
                Matrix(start.numbers, start.at + row * start.row + column, start.row, 1),
                depth,
                ending,
                1,
                vectors,
                size,
            )
            row += 1

    # Compiled code is found by name. Kernels that were cached by different processes may number
    # functions of one name differently, and would then call one of them for the other.
    strip.__qualname__ = f"strip_{tile_rows}_{vectors}_{size}"
    return helper(strip)


# A product is at its fastest while about sixteen sums are under way at once.
_wide_strip = _strip(STRIP_ROWS, WIDE, FULL)
_strip_of_one = _strip(8, 1, FULL)
_strip_of_half = _strip(8, 1, HALF)


@helper
def gemm(c, rows, columns, a, b, start, depth, ending):
    """C = start + A B for matrices whose rows are padded, as `columns` are; see `tile`.

    Every number is a sum of its own in a fixed order: how many rows are computed at once makes no
    difference to it.
    """
    lanes = FULL // c.numbers.itemsize
    column = 0
    while column + WIDE * lanes <= columns:
        _wide_strip(c, rows, column, a, b, start, depth, ending)
        column += WIDE * lanes
    while column + lanes <= columns:
        _strip_of_one(c, rows, column, a, b, start, depth, ending)
        column += lanes
    if column < columns:
        _strip_of_half(c, rows, column, a, b, start, depth, ending)


def _dot_strip(columns):
    """A function that fills some columns of a product with dot products."""

    def strip(c, rows, column, a, b, start, depth):
        below = Matrix(b.numbers, b.at + column * b.row, b.row, 1)
        begin = Matrix(start.numbers, start.at + column, 0, 1)
        row = 0
        while row + DOT_ROWS <= rows:
            target = Matrix(c.numbers, c.at + row * c.row + column, c.row, 1)
            source = Matrix(a.numbers, a.at + row * a.row, a.row, 1)
            dots(target, source, below, begin, depth, DOT_ROWS, columns, FULL)
            row += DOT_ROWS
        while row < rows:
            target = Matrix(c.numbers, c.at + row * c.row + column, c.row, 1)
            source = Matrix(a.numbers, a.at + row * a.row, a.row, 1)
            dots(target, source, below, begin, depth, 1, columns, FULL)
            row += 1

    strip.__qualname__ = f"dot_strip_{columns}"
    return helper(strip)


_strip_of_one_dot = _dot_strip(1)
_strip_of_two_dots = _dot_strip(2)


@helper
def thin_gemm(c, rows, columns, a, b, start, depth):
    """C = start + A B' for few columns and a depth of whole vectors; see `dots`.

    Rows are alike to it as well: how many are computed at once makes no difference.
    """
    column = 0
    while column + 2 <= columns:
        _strip_of_two_dots(c, rows, column, a, b, start, depth)
        column += 2
    if column < columns:
        _strip_of_one_dot(c, rows, column, a, b, start, depth)


@inline_helper
def plain(c):
    """The ending of a product that is stored as it is."""
    return ReluEpilogue(c.numbers.dtype.type(-math.inf))


@helper
def transpose_all(target, source, rows, columns):
    """Write a matrix of so many rows and columns into another, with these exchanged."""
    for row in range(0, rows, BLOCK):
        for column in range(0, columns, BLOCK):
            block = Matrix(source.numbers, source.at + row * source.row + column, source.row, 1)
            to = Matrix(target.numbers, target.at + column * target.row + row, target.row, 1)
            if row + BLOCK <= rows and column + BLOCK <= columns:
                transpose(to, block, BLOCK)
            else:
                transpose_edge(to, block, rows - row, columns - column, BLOCK)
