"""SplitMix64 random numbers inside kernels."""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import inline_helper

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
_U11, _U27, _U30, _U31, _U32 = (np.uint64(n) for n in (11, 27, 30, 31, 32))


@inline_helper
def draw_word(state, at):
    """64 random bits from the SplitMix64 state in state[at], which advances."""
    counter = state[at] + GOLDEN
    state[at] = counter
    z = (counter ^ (counter >> _U30)) * MIX_1
    z = (z ^ (z >> _U27)) * MIX_2
    return z ^ (z >> _U31)


@inline_helper
def draw(state, at, n):
    """A number in 0..n-1 from the random state in state[at], which advances."""
    return np.int64(((draw_word(state, at) >> _U32) * np.uint64(n)) >> _U32)


@inline_helper
def draw_real(state, at):
    """A float64 in 0 <= x < 1 from the random state in state[at], which advances."""
    return np.float64(draw_word(state, at) >> _U11) * 2.0**-53
