"""Where the numbers of an episode lie in memory, and the settings that kernels read.

An episode is a row of 64-bit words: scalars, then fires (cell and weather), their losses, bitmaps
of legal and closed cells, and the open directions of every cell. Arrival times of the fires, which
follow from the row, are behind all rows. Landscapes are in the pool, which is only read and whose
address and size are in `params`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from briskrl.compiler.jit import inline_helper
from briskrl.envs.kernels.parallel_step import flat_at_address

RNG, RETURN, LOSS_FIRST, LOSS, FIRE_RNG, KEY = range(6)
"""Words of a row; losses are fractions of the landscape's value."""
LAND, STEPS, SPENT, BUDGET, TREATED, DROPPED, PINNED = range(12, 19)
"""Places in a row seen as int32; PINNED is a landscape plus one, or 0 for any."""
EPISODE = 22
"""Place as int32: number of episodes since the env was seeded."""
ENDED = 40
"""Place as int16."""
ROW_SCALARS = 16

(
    R_POOL,
    R_POOL_WORDS,
    R_HEIGHT,
    R_WIDTH,
    R_CELLS,
    R_BITS,
    R_DIRECTIONS,
    R_REACH,
    R_CUTS,
    R_PINCHES,
    R_LANDSCAPES,
    R_WEATHER,
    R_FIRES,
    R_MODE,
    R_REWARD,
    R_BUDGET,
    R_PER_STEP,
    R_PENALTY,
    R_ROW,
    R_ROW_FIRES,
    R_ROW_LOSSES,
    R_ROW_LEGAL,
    R_ROW_FINAL,
    R_ROW_CLOSED,
    R_ROW_GATES,
    R_SCRATCH,
    R_SCRATCH_STRIDE,
    R_KEPT,
    R_KEPT_ENV,
    R_KEPT_FIRE,
    R_CHANNELS,
    R_STATIC,
    P_MINUTES,
    P_LIMITS,
    P_PLANES,
    P_VALUE,
    P_IGNITION,
    P_TOTAL,
    P_LEGAL,
    P_CLOSED,
    P_COUNT,
    P_FIXED,
    P_OFFSETS,
) = range(43)
"""Places in `params`. R_ROW_* hold places in a row, in words; P_* places in the pool, in elements
of their own type."""
R_CHANNEL = 48
"""Code of the first channel; see CHANNEL_*. The stencil begins at R_STENCIL."""
R_STENCIL = 80
CHANNEL_TREATED, CHANNEL_LEGAL, CHANNEL_BUDGET = -1, -2, -3
"""Other codes are indices of static planes."""
MODE_EPISODE, MODE_SET, MODE_FRESH, MODE_ROUND = range(4)
REWARD_DELTA, REWARD_RELATIVE, REWARD_TERMINAL = range(3)
SPENT_ALL, NONE_LEGAL = 1, 2
"""Causes of an episode end."""


class Memory(NamedTuple):
    """The arrays of a batch of episodes; those after `state` are views of it."""

    params: np.ndarray
    pool: np.ndarray
    state: np.ndarray
    f64: np.ndarray
    i32: np.ndarray
    u32: np.ndarray
    f32: np.ndarray
    i8: np.ndarray


@inline_helper
def open_memory(params, state):
    """The arrays of a batch."""
    pool = flat_at_address(params, params[R_POOL], params[R_POOL_WORDS])
    f64, i32, u32 = state.view(np.float64), state.view(np.int32), state.view(np.uint32)
    return Memory(params, pool, state, f64, i32, u32, state.view(np.float32), state.view(np.int8))
