"""Compiled work that is timed: products as the fused engine does them, memory, nothing at all.

Shapes: A is (rows, depth), B is (depth, columns) and C is (rows, columns), all of them flat.
"""

from __future__ import annotations

from briskrl.fused.kernels import TILE_ROWS
from briskrl.fused.products.intrinsics import Matrix
from briskrl.fused.products.kernels import plain, product
from briskrl.jit import kernel


@kernel
def multiply(a, b, c, bias, rows, depth, columns, repeats):
    """C = A B + bias, tile by tile as layers are computed, again and again."""
    right, start = Matrix(b, 0, columns, 1), Matrix(bias, 0, 0, 1)
    for _ in range(repeats):
        for first in range(0, rows, TILE_ROWS):
            target = Matrix(c, first * columns, columns, 1)
            left = Matrix(a, first * depth, depth, 1)
            some = min(TILE_ROWS, rows - first)
            product(target, some, columns, left, right, start, depth, plain(target))


@kernel
def triad(out, left, right, factor):
    """Write left + factor * right into out: two arrays are read and one is written."""
    for i in range(out.shape[0]):
        out[i] = left[i] + factor * right[i]


@kernel
def nothing(numbers):
    """Take an array and leave it alone."""
