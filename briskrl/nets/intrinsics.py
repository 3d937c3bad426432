"""What kernels need and Numba does not offer: numbers seen as their bits, and the reverse."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def float_of(typing, bits):
    """The float64 that 64 bits stand for."""

    def generate(context, builder, signature, values):
        return builder.bitcast(values[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def bits_of(typing, number):
    """The 64 bits of a float64."""

    def generate(context, builder, signature, values):
        return builder.bitcast(values[0], ir.IntType(64))

    return types.int64(types.float64), generate
