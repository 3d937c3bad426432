"""Compiled work that is timed: products, memory access, nothing at all.

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
    """C = A B + bias, tile by tile as layers are computed, repeatedly."""
    right, start = Matrix(b, 0, columns, 1), Matrix(bias, 0, 0, 1)
    for _ in range(repeats):
        for first in range(0, rows, TILE_ROWS):
            target = Matrix(c, first * columns, columns, 1)
            left = Matrix(a, first * depth, depth, 1)
            tile_rows = min(TILE_ROWS, rows - first)
            gemm(target, tile_rows, columns, left, right, start, depth, plain(target))


@kernel
def multiply_parts(job, member):
    """Every part is `multiply` with a member's own A, B, C and bias.

    The argument is an array of rows, depth, columns and repeats.
    """
    queue, _, members, args = unpack(job)
    a, b, c, bias = unpack(members[member])
    (sizes,) = unpack(args)
    while next_part(queue) >= 0:
        multiply(a, b, c, bias, sizes[0], sizes[1], sizes[2], sizes[3])


@kernel
def triad(out, left, right, factor):
    """Out = left + factor * right: two arrays are read and one is written."""
    for i in range(out.shape[0]):
        out[i] = left[i] + factor * right[i]


@kernel
def triad_parts(job, member):
    """The same in parts; the arguments are out, left, right and an array of the factor."""
    queue, bounds, _, args = unpack(job)
    out, left, right, factor = unpack(args)
    part = next_part(queue)
    while part >= 0:
        begin, end = bounds[part], bounds[part + 1]
        triad(out[begin:end], left[begin:end], right[begin:end], factor[0])
        part = next_part(queue)


@kernel
def nothing(numbers):
    """Take an array and do nothing."""


@kernel
def do_nothing(args, number):
    """Work for a NativeWorker that does nothing."""
