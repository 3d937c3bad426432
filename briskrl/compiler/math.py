"""tanh, exp and log for kernels, and arithmetic without denormal numbers."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from briskrl.compiler.jit import fastmath_helper, fma_helper, helper, inline_helper, kernel
from briskrl.core.types import Array

_single = np.float32
# Odd numerator and even denominator of a rational approximation of tanh up to the limit, beyond
# which tanh is 1 to within 3.4e-7: a minimax fit of the relative error, rounding included.
LIMIT = _single(7.8)
P3, P5, P7 = _single(1.29475534e-01), _single(2.97445781e-03), _single(1.16812553e-05)
Q2, Q4, Q6, Q8 = (
    _single(4.62808281e-01),
    _single(2.39115953e-02),
    _single(2.41977032e-04),
    _single(2.54010615e-07),
)
ONE = _single(1)
PER_LOG_2 = 1.4426950408889634
LOG_2, LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""The logarithm of 2 in two parts; the first has few bits, so that integer multiples are exact."""
FRACTION_BITS = 52
FRACTION = (1 << FRACTION_BITS) - 1
BIAS = 1023
"""The layout of a float64: a fraction below an exponent with this bias."""
HIGHEST_EXPONENT = 709.0
LOWEST_EXPONENT = -708.0
"""Exponents of e whose results are normal numbers."""
ROOT_2 = 1.4142135623730951

_ON_X86 = platform.machine().lower() in ("x86_64", "amd64")
_FLUSH = 0x8040
"""The bits of x86's control register that turn denormal results and operands into zeros."""

_SHORT = ir.IntType(32)


@inline_helper
def within(low, value, high):
    """The value, clipped to the limits; NaN stays NaN, which min and max would hide."""
    value = high if value > high else value
    return low if value < low else value


@fastmath_helper
def tanh_in_place(values: Array) -> None:
    """Replace float32 values (M,) by their hyperbolic tangent, to a relative error of 4e-7.

    Measured for 16384 values: 4 us against 42 us with torch. NaN stays NaN.
    """
    for i in range(values.shape[0]):
        x = values[i]
        # Conditional expressions keep NaN and can be vectorized.
        x = LIMIT if x > LIMIT else x
        x = -LIMIT if x < -LIMIT else x
        square = x * x
        above = P7 * square + P5
        above = above * square + P3
        above = above * square + ONE
        below = Q8 * square + Q6
        below = below * square + Q4
        below = below * square + Q2
        below = below * square + ONE
        values[i] = x * above / below


@kernel
def tanh_all(values: Array) -> None:
    """`tanh_in_place` for callers that are not compiled."""
    tanh_in_place(values)


@fma_helper
def exp(x):
    """The power e^x, to a relative error of 3e-16; no function call, so that loops are vectorized.

    With x = n log 2 + r, e^x is 2^n times a Taylor series of r, which is below 0.35. Results too
    small for a normal number are 0, those too large infinite; NaN stays NaN.
    """
    inside = within(LOWEST_EXPONENT, x, HIGHEST_EXPONENT)
    n = np.floor(inside * PER_LOG_2 + 0.5)
    r = inside - n * LOG_2 - n * LOG_2_REST
    series = 1 / 6227020800.0
    series = series * r + 1 / 479001600.0
    series = series * r + 1 / 39916800.0
    series = series * r + 1 / 3628800.0
    series = series * r + 1 / 362880.0
    series = series * r + 1 / 40320.0
    series = series * r + 1 / 5040.0
    series = series * r + 1 / 720.0
    series = series * r + 1 / 120.0
    series = series * r + 1 / 24.0
    series = series * r + 1 / 6.0
    series = series * r + 0.5
    series = series * r + 1.0
    series = series * r + 1.0
    power = float_of((np.int64(n) + BIAS) << FRACTION_BITS)
    result = series * power
    result = np.inf if x > HIGHEST_EXPONENT else result
    return 0.0 if x < LOWEST_EXPONENT else result


@fma_helper
def log(x):
    """The logarithm of a finite normal x > 0; no function call, so that loops are vectorized.

    The error is below 5e-16 times the larger of 1 and the result. With x = 2^n m and m around 1,
    log m = 2 artanh s = 2 (s + s^3/3 + ...) for s = (m - 1) / (m + 1). NaN stays NaN.
    """
    bits = bits_of(x)
    n = np.float64((bits >> FRACTION_BITS) - BIAS)
    m = float_of((bits & FRACTION) | (BIAS << FRACTION_BITS))
    past = m > ROOT_2
    m = 0.5 * m if past else m
    n = n + 1.0 if past else n
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = 1 / 23
    series = series * z + 1 / 21
    series = series * z + 1 / 19
    series = series * z + 1 / 17
    series = series * z + 1 / 15
    series = series * z + 1 / 13
    series = series * z + 1 / 11
    series = series * z + 1 / 9
    series = series * z + 1 / 7
    series = series * z + 1 / 5
    series = series * z + 1 / 3
    # The last bracket is 0, or NaN as x is.
    return n * LOG_2 + (n * LOG_2_REST + 2.0 * (s + s * z * series)) + (x - x)


@helper
def exp_all(values, out):
    """out[:] = exp(values)."""
    for i in range(values.shape[0]):
        out[i] = exp(values[i])


@helper
def log_all(values, out):
    """out[:] = log(values)."""
    for i in range(values.shape[0]):
        out[i] = log(values[i])


@intrinsic
def float_of(typing, bits):
    """The float64 with these 64 bits."""

    def generate(context, builder, signature, values):
        return builder.bitcast(values[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def bits_of(typing, number):
    """The 64 bits of a float64."""

    def generate(context, builder, signature, values):
        return builder.bitcast(values[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def flush_denormals(typing):
    """Let this thread treat denormals as zeros; returns the argument of `restore_denormals`.

    Adam's moments of units that no longer fire decay into denormals, which are many times slower
    than normal numbers. Only on x86; other processors are left as they are.
    """

    def generate(context, builder, signature, values):
        if not _ON_X86:
            return ir.Constant(_SHORT, 0)
        place = cgutils.alloca_once(builder, _SHORT)
        _control(builder, "st", place)
        before = builder.load(place)
        builder.store(builder.or_(before, ir.Constant(_SHORT, _FLUSH)), place)
        _control(builder, "ld", place)
        return before

    return types.uint32(), generate


@intrinsic
def restore_denormals(typing, before):
    """Undo `flush_denormals`, given its result."""

    def generate(context, builder, signature, values):
        if _ON_X86:
            place = cgutils.alloca_once(builder, _SHORT)
            builder.store(values[0], place)
            _control(builder, "ld", place)
        return context.get_dummy_value()

    return types.void(types.uint32), generate


def _control(builder: Any, what: str, place: Any) -> None:
    """Store or load the thread's floating-point control register."""
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer])
    name = f"llvm.x86.sse.{what}mxcsr"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    builder.call(function, [builder.bitcast(place, pointer)])
