"""Products and transposes of matrices in flat arrays."""

from __future__ import annotations

import math

from briskrl.compiler.jit import helper, inline_helper
from briskrl.fused.kernels.gemm_tile import WIDE, Matrix, ReluEpilogue, dots, tile
from briskrl.fused.kernels.transpose import transpose, transpose_edge

VECTOR_BYTES, HALF_VECTOR_BYTES = 64, 32
"""Sizes of vectors."""
BLOCK = 16
"""Rows and columns of the blocks by which matrices are transposed."""
STRIP_ROWS = 4
"""Rows of a tile of the widest strips; divides the padding."""
DOT_ROWS = 4
"""Rows whose dot products are computed at once."""


def _strip(tile_rows, vectors, size):
    """A helper that computes some columns of a product, `tile_rows` rows at a time."""

    def strip(c, rows, column, a, b, start, depth, epilogue):
        below = Matrix(b.data, b.offset + column, b.stride, 1)
        row = 0
        while row + tile_rows <= rows:
            tile(
                Matrix(c.data, c.offset + row * c.stride + column, c.stride, 1),
                Matrix(a.data, a.offset + row * a.stride, a.stride, a.step),
                below,
                Matrix(start.data, start.offset + row * start.stride + column, start.stride, 1),
                depth,
                epilogue,
                tile_rows,
                vectors,
                size,
            )
            row += tile_rows
        while row < rows:
            tile(
                Matrix(c.data, c.offset + row * c.stride + column, c.stride, 1),
                Matrix(a.data, a.offset + row * a.stride, a.stride, a.step),
                below,
                Matrix(start.data, start.offset + row * start.stride + column, start.stride, 1),
                depth,
                epilogue,
                1,
                vectors,
                size,
            )
            row += 1

    # Numba looks compiled code up by name. Kernels that were cached by different processes may
    # number functions of one name differently, and would then call the wrong one.
    strip.__qualname__ = f"strip_{tile_rows}_{vectors}_{size}"
    return helper(strip)


# Products are fastest with about sixteen accumulators.
_wide_strip = _strip(STRIP_ROWS, WIDE, VECTOR_BYTES)
_strip_of_one = _strip(8, 1, VECTOR_BYTES)
_strip_of_half = _strip(8, 1, HALF_VECTOR_BYTES)


@helper
def gemm(c, rows, columns, a, b, start, depth, epilogue):
    """C = start + A B for matrices whose rows are padded, as `columns` are; see `tile`.

    Every element is a sum in a fixed order, independent of how many rows are computed at once.
    """
    lanes = VECTOR_BYTES // c.data.itemsize
    column = 0
    while column + WIDE * lanes <= columns:
        _wide_strip(c, rows, column, a, b, start, depth, epilogue)
        column += WIDE * lanes
    while column + lanes <= columns:
        _strip_of_one(c, rows, column, a, b, start, depth, epilogue)
        column += lanes
    if column < columns:
        _strip_of_half(c, rows, column, a, b, start, depth, epilogue)


def _dot_strip(columns):
    """A helper that computes some columns of a product as dot products."""

    def strip(c, rows, column, a, b, start, depth):
        below = Matrix(b.data, b.offset + column * b.stride, b.stride, 1)
        begin = Matrix(start.data, start.offset + column, 0, 1)
        row = 0
        while row + DOT_ROWS <= rows:
            target = Matrix(c.data, c.offset + row * c.stride + column, c.stride, 1)
            source = Matrix(a.data, a.offset + row * a.stride, a.stride, 1)
            dots(target, source, below, begin, depth, DOT_ROWS, columns, VECTOR_BYTES)
            row += DOT_ROWS
        while row < rows:
            target = Matrix(c.data, c.offset + row * c.stride + column, c.stride, 1)
            source = Matrix(a.data, a.offset + row * a.stride, a.stride, 1)
            dots(target, source, below, begin, depth, 1, columns, VECTOR_BYTES)
            row += 1

    strip.__qualname__ = f"dot_strip_{columns}"
    return helper(strip)


_strip_of_one_dot = _dot_strip(1)
_strip_of_two_dots = _dot_strip(2)


@helper
def dot_gemm(c, rows, columns, a, b, start, depth):
    """C = start + A B' for few columns; the depth is a multiple of the vector length. See `dots`.

    Results do not depend on how many rows are computed at once.
    """
    column = 0
    while column + 2 <= columns:
        _strip_of_two_dots(c, rows, column, a, b, start, depth)
        column += 2
    if column < columns:
        _strip_of_one_dot(c, rows, column, a, b, start, depth)


@inline_helper
def plain(c):
    """The epilogue that leaves a product as it is."""
    return ReluEpilogue(c.data.dtype.type(-math.inf))


@helper
def transpose_all(target, source, rows, columns):
    """Write the transpose of `source`, (rows, columns), into `target`."""
    for row in range(0, rows, BLOCK):
        for column in range(0, columns, BLOCK):
            block = Matrix(
                source.data, source.offset + row * source.stride + column, source.stride, 1
            )
            to = Matrix(target.data, target.offset + column * target.stride + row, target.stride, 1)
            if row + BLOCK <= rows and column + BLOCK <= columns:
                transpose(to, block, BLOCK)
            else:
                transpose_edge(to, block, rows - row, columns - column, BLOCK)
