"""Trying breaks on a sample of fires, compiled: only fires that a change can touch are burned."""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, kernel
from briskrl.envs.kernels.rng import draw
from briskrl.envs.wildfire.kernels.spread import (
    ZERO,
    burned_at,
    can_change,
    close_gates,
    forget,
    has_bit,
    set_bit,
    spread,
)

HEIGHT, WIDTH, CUTS, PINCHES, REACH, PAIRS = range(6)
"""Places in `shape`."""
NEAR = 2
"""Half of the proposals move a break by at most so many rows and columns."""


@helper
def burn_fire(
    scratch, minutes, limits, offsets, gates, closed, shape, start, weather, value, burned, at
):
    """Burn one fire; sets its bits from `at` on and returns the lost value."""
    i32, f32, i8 = scratch, scratch.view(np.float32), scratch.view(np.int8)
    width, reach, cells, count = shape[WIDTH], shape[REACH], gates.size, offsets.size
    for j in range(closed.size):
        burned[at + j] = ZERO
    if has_bit(closed, 0, start):
        return 0.0
    found = spread(
        i32,
        f32,
        i8,
        0,
        cells,
        width,
        reach,
        minutes,
        weather * cells * count,
        offsets,
        count,
        gates,
        start,
        limits[weather],
    )
    first = burned_at(0, cells, width, reach)
    total = 0.0
    for m in range(found):
        cell = np.int64(i32[first + m])
        total += value[cell]
        set_bit(burned, at, cell)
    forget(i32, f32, 0, cells, width, reach, found)
    return total


@helper
def lay_breaks(gates, closed, base_closed, breaks, shape, stencil):
    """Gates and closed cells with these breaks (M,) and no others."""
    for j in range(closed.size):
        closed[j] = base_closed[j]
    for cell in range(gates.size):
        gates[cell] = np.uint32(0xFFFFFFFF)
    for n in range(breaks.size):
        set_bit(closed, 0, breaks[n])
    for n in range(breaks.size):
        close_gates(
            gates,
            0,
            closed,
            0,
            breaks[n],
            shape[HEIGHT],
            shape[WIDTH],
            stencil,
            shape[CUTS],
            shape[PINCHES],
        )


@helper
def touches(burned, at, cell, shape, stencil):
    """Whether a fire burned any cell that a break at `cell` keeps from going somewhere."""
    row, col = cell // shape[WIDTH], cell % shape[WIDTH]
    for n in range(shape[CUTS] + shape[PINCHES]):
        p = 3 * n if n < shape[CUTS] else 3 * shape[CUTS] + 5 * (n - shape[CUTS])
        r, c = row + stencil[p], col + stencil[p + 1]
        if r < 0 or r >= shape[HEIGHT] or c < 0 or c >= shape[WIDTH]:
            continue
        if has_bit(burned, at, r * shape[WIDTH] + c):
            return True
    return False


@kernel
def burn_sample(
    scratch,
    minutes,
    limits,
    offsets,
    gates,
    closed,
    base_closed,
    shape,
    stencil,
    starts,
    weathers,
    value,
    breaks,
    burned,
    losses,
):
    """Burn all fires with these breaks; keeps what each burned and returns the sum of losses."""
    lay_breaks(gates, closed, base_closed, breaks, shape, stencil)
    total = 0.0
    for n in range(starts.size):
        losses[n] = burn_fire(
            scratch,
            minutes,
            limits,
            offsets,
            gates,
            closed,
            shape,
            starts[n],
            weathers[n],
            value,
            burned,
            n * closed.size,
        )
        total += losses[n]
    return total


@kernel
def try_cells(
    scratch,
    minutes,
    limits,
    offsets,
    gates,
    closed,
    base_closed,
    shape,
    stencil,
    starts,
    weathers,
    value,
    breaks,
    burned,
    losses,
    pairs,
    candidates,
    totals,
    work,
):
    """Sum of losses (M,) with each candidate (M,) as one more break; `breaks` ends in a free place.

    The fires are known to burn `burned`, with `losses`, before the new break.
    """
    bits = closed.size
    for m in range(candidates.size):
        breaks[breaks.size - 1] = candidates[m]
        lay_breaks(gates, closed, base_closed, breaks, shape, stencil)
        total = 0.0
        for n in range(starts.size):
            changed = can_change(
                burned, n * bits, candidates[m], shape[HEIGHT], shape[WIDTH], pairs, 0, shape[PAIRS]
            )
            if changed:
                total += burn_fire(
                    scratch,
                    minutes,
                    limits,
                    offsets,
                    gates,
                    closed,
                    shape,
                    starts[n],
                    weathers[n],
                    value,
                    work,
                    0,
                )
            else:
                total += losses[n]
        totals[m] = total


@helper
def proposed(random, breaks, slot, legal, weights, shape):
    """A legal free cell to move a break to: near it, or anywhere in proportion to weights.

    Weights are cumulative. Returns -1 if the draw hits a cell that cannot be taken.
    """
    cell = breaks[slot]
    if draw(random, 0, 2) == 0:
        row = cell // shape[WIDTH] + draw(random, 0, 2 * NEAR + 1) - NEAR
        col = cell % shape[WIDTH] + draw(random, 0, 2 * NEAR + 1) - NEAR
        if row < 0 or row >= shape[HEIGHT] or col < 0 or col >= shape[WIDTH]:
            return -1
        new = row * shape[WIDTH] + col
    else:
        point = np.float64(draw(random, 0, 4294967296)) / 4294967296.0 * weights[weights.size - 1]
        new = np.int64(np.searchsorted(weights, point, side="right"))
        new = min(new, weights.size - 1)
    if not legal[new]:
        return -1
    for n in range(breaks.size):
        if breaks[n] == new:
            return -1
    return new


@kernel
def search_swaps(
    scratch,
    minutes,
    limits,
    offsets,
    gates,
    closed,
    base_closed,
    shape,
    stencil,
    starts,
    weathers,
    value,
    breaks,
    burned,
    losses,
    pairs,
    legal,
    weights,
    random,
    work,
    renewed,
    budget,
):
    """Move breaks one at a time while the sum of losses does not rise.

    Stops after `budget` simulated fires, or as many draws. Breaks, bitmaps and losses are kept up
    to date; `renewed` (F,) and `work` are scratch space. Returns the number of simulated fires.
    """
    bits, simulated, draws = closed.size, 0, 0
    while simulated < budget and draws < budget:
        draws += 1
        slot = draw(random, 0, breaks.size)
        new = proposed(random, breaks, slot, legal, weights, shape)
        if new < 0:
            continue
        old = breaks[slot]
        breaks[slot] = new
        lay_breaks(gates, closed, base_closed, breaks, shape, stencil)
        change = 0.0
        for n in range(starts.size):
            renewed[n] = -1.0
            at = n * bits
            if (
                starts[n] == old
                or touches(burned, at, old, shape, stencil)
                or can_change(burned, at, new, shape[HEIGHT], shape[WIDTH], pairs, 0, shape[PAIRS])
            ):
                renewed[n] = burn_fire(
                    scratch,
                    minutes,
                    limits,
                    offsets,
                    gates,
                    closed,
                    shape,
                    starts[n],
                    weathers[n],
                    value,
                    work,
                    at,
                )
                change += renewed[n] - losses[n]
                simulated += 1
        if change > 0.0:
            breaks[slot] = old
            continue
        for n in range(starts.size):
            if renewed[n] >= 0.0:
                losses[n] = renewed[n]
                for j in range(bits):
                    burned[n * bits + j] = work[n * bits + j]
    return simulated
