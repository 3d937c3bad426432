"""Compiled work that is timed: products as the fused engine does them, memory, nothing at all.

Shapes: A is (rows, depth), B is (depth, columns) and C is (rows, columns), all of them flat.
"""

from __future__ import annotations

from briskrl.compiler.jit import kernel
from briskrl.compiler.packed_args import unpack
from briskrl.fused.kernels.gemm import gemm, plain
from briskrl.fused.kernels.gemm_tile import Matrix
from briskrl.fused.kernels.structs import TILE_ROWS
from briskrl.parallel.kernels.queue import next_part


@kernel
def multiply(a, b, c, bias, rows, depth, columns, repeats):
    """C = A B + bias, tile by tile as layers are computed, again and again."""
    right, start = Matrix(b, 0, columns, 1), Matrix(bias, 0, 0, 1)
    for _ in range(repeats):
        for first in range(0, rows, TILE_ROWS):
            target = Matrix(c, first * columns, columns, 1)
            left = Matrix(a, first * depth, depth, 1)
            some = min(TILE_ROWS, rows - first)
            gemm(target, some, columns, left, right, start, depth, plain(target))


@kernel
def multiply_parts(job, member):
    """Every part is `multiply` with a member's own A, B, C and bias.

    The subject: how many rows, how deep, how many columns and repeats.
    """
    board, _, members, subject = unpack(job)
    a, b, c, bias = unpack(members[member])
    (sizes,) = unpack(subject)
    while next_part(board) >= 0:
        multiply(a, b, c, bias, sizes[0], sizes[1], sizes[2], sizes[3])


@kernel
def triad(out, left, right, factor):
    """Write left + factor * right into out: two arrays are read and one is written."""
    for i in range(out.shape[0]):
        out[i] = left[i] + factor * right[i]


@kernel
def triad_parts(job, member):
    """The same in parts; the subject: out, left, right and an array of the factor alone."""
    board, bounds, _, subject = unpack(job)
    out, left, right, factor = unpack(subject)
    part = next_part(board)
    while part >= 0:
        begin, end = bounds[part], bounds[part + 1]
        triad(out[begin:end], left[begin:end], right[begin:end], factor[0])
        part = next_part(board)


@kernel
def nothing(numbers):
    """Take an array and leave it alone."""


@kernel
def do_nothing(held, number):
    """Work for a service, of no kind."""
