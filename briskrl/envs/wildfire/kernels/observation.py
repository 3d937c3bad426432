"""Observations: planes, masks, and short codes from which both can be rebuilt."""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, inline_helper, kernel
from briskrl.envs.kernels.parallel_step import flat_at_address
from briskrl.envs.wildfire.kernels.layout import (
    BUDGET,
    CHANNEL_BUDGET,
    CHANNEL_LEGAL,
    LAND,
    P_CLOSED,
    P_LEGAL,
    P_PLANES,
    R_BITS,
    R_CELLS,
    R_CHANNEL,
    R_CHANNELS,
    R_POOL,
    R_POOL_WORDS,
    R_ROW,
    R_ROW_CLOSED,
    R_STATIC,
    SPENT,
)
from briskrl.envs.wildfire.kernels.spread import has_bit


@helper
def show(params, pool, treated, at, land, budget, shown, to):
    """Write the planes (C, H, W) of a landscape with these treated cells, from `to` on.

    Args:
        params: Settings.
        pool: Landscapes.
        treated: Bitmap of treated cells, from word `at` on; bits of cells that cannot burn are
            ignored.
        at: See treated.
        land: The landscape.
        budget: Fraction of the budget that is left.
        shown: Where to write.
        to: See shown.
    """
    cells = params[R_CELLS]
    planes, pool32 = params[P_PLANES] + land * params[R_STATIC] * cells, pool.view(np.float32)
    sets = pool.view(np.uint64)
    shut, open_ = params[P_CLOSED] + land * params[R_BITS], params[P_LEGAL] + land * params[R_BITS]
    for c in range(params[R_CHANNELS]):
        code, first = params[R_CHANNEL + c], to + c * cells
        if code >= 0:
            from_ = planes + code * cells
            for cell in range(cells):
                shown[first + cell] = pool32[from_ + cell]
        elif code == CHANNEL_BUDGET:
            for cell in range(cells):
                shown[first + cell] = budget
        elif code == CHANNEL_LEGAL:
            for cell in range(cells):
                legal = has_bit(sets, open_, cell) and not has_bit(treated, at, cell)
                shown[first + cell] = np.float32(1.0) if legal else np.float32(0.0)
        else:
            for cell in range(cells):
                done = has_bit(treated, at, cell) and not has_bit(sets, shut, cell)
                shown[first + cell] = np.float32(1.0) if done else np.float32(0.0)


@inline_helper
def budget_left(i32, base):
    """Fraction of the budget that is left."""
    left = i32[base * 2 + BUDGET] - i32[base * 2 + SPENT]
    return np.float32(left / max(1, i32[base * 2 + BUDGET]))


@helper
def observe_episode(params, pool, state, i32, base, shown, at):
    """Write the planes of one episode, (C, H, W) from `at` on."""
    land, closed = np.int64(i32[base * 2 + LAND]), base + params[R_ROW_CLOSED]
    show(params, pool, state, closed, land, budget_left(i32, base), shown, at)


@kernel
def write_masks(params, state, place_of, mask):
    """Write the cells (N, cells) that are set in a bitmap of each row."""
    for i in range(mask.shape[0]):
        at = i * params[R_ROW] + params[place_of]
        for cell in range(mask.shape[1]):
            mask[i, cell] = has_bit(state, at, cell)


@kernel
def write_codes(params, state, codes):
    """Write the code of each episode (N, 1 + bits): landscape and budget left, closed cells."""
    i32, halves, reals = state.view(np.int32), codes.view(np.int32), codes.view(np.float32)
    for i in range(codes.shape[0]):
        base = i * params[R_ROW]
        halves[i, 0] = i32[base * 2 + LAND]
        reals[i, 1] = budget_left(i32, base)
        for j in range(params[R_BITS]):
            codes[i, 1 + j] = state[base + params[R_ROW_CLOSED] + j]


@kernel
def read_planes(params, codes, obs):
    """Write the planes (B, C, H, W) of codes."""
    pool = flat_at_address(params, params[R_POOL], params[R_POOL_WORDS])
    halves, reals = codes.view(np.int32), codes.view(np.float32)
    flat, shown = codes.reshape(codes.size), obs.reshape(obs.size)
    for i in range(codes.shape[0]):
        first = i * codes.shape[1] + 1
        land = np.int64(halves[i, 0])
        show(params, pool, flat, first, land, reals[i, 1], shown, i * (obs.size // codes.shape[0]))


@kernel
def read_masks(params, codes, mask):
    """Write the legal cells (B, H * W) of codes."""
    sets = flat_at_address(params, params[R_POOL], params[R_POOL_WORDS]).view(np.uint64)
    halves, flat = codes.view(np.int32), codes.reshape(codes.size)
    for i in range(codes.shape[0]):
        open_ = params[P_LEGAL] + np.int64(halves[i, 0]) * params[R_BITS]
        closed = i * codes.shape[1] + 1
        for cell in range(mask.shape[1]):
            mask[i, cell] = has_bit(sets, open_, cell) and not has_bit(flat, closed, cell)
