"""Compiled pieces of the networks."""

from __future__ import annotations

import numpy as np

from briskrl.core.types import Array
from briskrl.jit import inlined, kernel, reordering

RUN, LONGEST, SKIPPED, DONE, NORMS, COUNTERS = range(6)
"""An optimiser's counters: updates in a row that were not finite, the most of them, how many in
all; updates done, the sum of their norms."""

_single = np.float32

# Odd numerator and even denominator of a rational approximation of tanh that is as exact as float32
# allows up to the limit, past which tanh rounds to 1; the coefficients are those of Eigen.
LIMIT = _single(7.90531110763549805)
P1, P3, P5, P7, P9, P11, P13 = (
    _single(4.89352455891786e-03),
    _single(6.37261928875436e-04),
    _single(1.48572235717979e-05),
    _single(5.12229709037114e-08),
    _single(-8.60467152213735e-11),
    _single(2.00018790482477e-13),
    _single(-2.76076847742355e-16),
)
Q0, Q2, Q4, Q6 = (
    _single(4.89352518554385e-03),
    _single(2.26843463243900e-03),
    _single(1.18534705686654e-04),
    _single(1.19825839466702e-06),
)


@inlined
def within(low, value, high):
    """The value, or the limit that it is past; NaN stays NaN, which min and max would hide."""
    value = high if value > high else value
    return low if value < low else value


@reordering
def tanh_in_place(values: Array) -> None:
    """Replace float32 values (M,) by their hyperbolic tangent, to a relative error of 4e-7.

    Measured for 16384 values: 7 us against 45 us with torch. NaN stays NaN.
    """
    for i in range(values.shape[0]):
        x = values[i]
        # Written as selections, which keep NaN and let the compiler work on whole registers.
        x = LIMIT if x > LIMIT else x
        x = -LIMIT if x < -LIMIT else x
        square = x * x
        above = P13 * square + P11
        above = above * square + P9
        above = above * square + P7
        above = above * square + P5
        above = above * square + P3
        above = above * square + P1
        below = Q6 * square + Q4
        below = below * square + Q2
        below = below * square + Q0
        values[i] = x * above / below


@kernel
def tanh_all(values: Array) -> None:
    """`tanh_in_place` for callers that are not compiled."""
    tanh_in_place(values)
