"""Search for good breaks on a sample of fires; only fires that a change can affect are burned."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from briskrl.compiler.jit import helper, kernel
from briskrl.envs.kernels.rng import draw
from briskrl.envs.wildfire.kernels.spread import (
    CUTS,
    HEIGHT,
    PINCHES,
    REACH,
    WIDTH,
    ZERO,
    Breaks,
    burned_at,
    can_change,
    close_gates,
    forget,
    has_bit,
    set_bit,
    spread,
)

NEAR = 2
"""Half of the proposals move a break by at most this number of rows and columns."""


class Sample(NamedTuple):
    """A sample of F fires and what they burn with the present breaks."""

    starts: np.ndarray
    """(F,): ignition cells."""
    weathers: np.ndarray
    """(F,): weather scenarios."""
    burned: np.ndarray
    """Bitmaps of the burned cells of each fire, flat."""
    losses: np.ndarray
    """(F,): lost value."""
    work: np.ndarray
    """Scratch space like `burned`."""
    unburnable: np.ndarray
    """Bitmap of the cells that cannot burn."""
    pairs: np.ndarray
    """Ends (Q, 4) of moves that a break can stop without being either end, relative to it; flat."""


class Proposals(NamedTuple):
    """How new places for a break are drawn."""

    legal: np.ndarray
    """(cells,): where a break may be."""
    weights: np.ndarray
    """(cells,): cumulative."""
    random: np.ndarray
    """(1,): random state, which moves on."""


@helper
def burn_fire(grid, start, weather, burned, at):
    """Burn one fire; sets its bits from `at` on and returns the lost value."""
    for j in range(grid.closed.size):
        burned[at + j] = ZERO
    if has_bit(grid.closed, 0, start):
        return 0.0
    found = spread(grid, start, weather)
    i32 = grid.scratch
    first = burned_at(0, grid.allowed.size, grid.shape[WIDTH], grid.shape[REACH])
    total = 0.0
    for m in range(found):
        cell = np.int64(i32[first + m])
        total += grid.value[cell]
        set_bit(burned, at, cell)
    forget(grid, found)
    return total


@helper
def lay_breaks(grid, unburnable, breaks):
    """Set the open directions and closed cells for these breaks (M,) and no others."""
    shape, allowed, closed = grid.shape, grid.allowed, grid.closed
    for j in range(closed.size):
        closed[j] = unburnable[j]
    for cell in range(allowed.size):
        allowed[cell] = np.uint32(0xFFFFFFFF)
    for n in range(breaks.size):
        set_bit(closed, 0, breaks[n])
    laid = Breaks(allowed, 0, closed, 0, grid.stencil)
    for n in range(breaks.size):
        close_gates(laid, breaks[n], shape[HEIGHT], shape[WIDTH], shape[CUTS], shape[PINCHES])


@helper
def touches(grid, burned, at, cell):
    """Whether a fire burned any cell that a break at `cell` keeps from going somewhere."""
    shape, stencil = grid.shape, grid.stencil
    row, col = cell // shape[WIDTH], cell % shape[WIDTH]
    for n in range(shape[CUTS] + shape[PINCHES]):
        p = 3 * n if n < shape[CUTS] else 3 * shape[CUTS] + 5 * (n - shape[CUTS])
        r, c = row + stencil[p], col + stencil[p + 1]
        if r < 0 or r >= shape[HEIGHT] or c < 0 or c >= shape[WIDTH]:
            continue
        if has_bit(burned, at, r * shape[WIDTH] + c):
            return True
    return False


@helper
def may_change(grid, sample, at, cell):
    """Whether a break at `cell` could change the fire whose bitmap begins at `at`."""
    height, width = grid.shape[HEIGHT], grid.shape[WIDTH]
    return can_change(
        sample.burned, at, cell, height, width, sample.pairs, 0, sample.pairs.size // 4
    )


@kernel
def burn_sample(grid, sample, breaks):
    """Burn all fires with these breaks; updates the sample and returns the sum of losses."""
    lay_breaks(grid, sample.unburnable, breaks)
    bits, total = grid.closed.size, 0.0
    for n in range(sample.starts.size):
        sample.losses[n] = burn_fire(
            grid, sample.starts[n], sample.weathers[n], sample.burned, n * bits
        )
        total += sample.losses[n]
    return total


@kernel
def try_cells(grid, sample, breaks, candidates, totals):
    """Sum of losses (M,) with each candidate (M,) as one more break.

    The last element of `breaks` is free for the candidate; the sample is that of the others.
    """
    bits = grid.closed.size
    for m in range(candidates.size):
        breaks[breaks.size - 1] = candidates[m]
        lay_breaks(grid, sample.unburnable, breaks)
        total = 0.0
        for n in range(sample.starts.size):
            if may_change(grid, sample, n * bits, candidates[m]):
                total += burn_fire(grid, sample.starts[n], sample.weathers[n], sample.work, 0)
            else:
                total += sample.losses[n]
        totals[m] = total


@helper
def propose(grid, proposals, breaks, slot):
    """A legal free cell to move a break to: near it, or anywhere in proportion to weights.

    Returns -1 if the drawn cell cannot be taken.
    """
    legal, weights, random = proposals
    height, width, cell = grid.shape[HEIGHT], grid.shape[WIDTH], breaks[slot]
    if draw(random, 0, 2) == 0:
        row = cell // width + draw(random, 0, 2 * NEAR + 1) - NEAR
        col = cell % width + draw(random, 0, 2 * NEAR + 1) - NEAR
        if row < 0 or row >= height or col < 0 or col >= width:
            return -1
        new = row * width + col
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
def search_swaps(grid, sample, breaks, proposals, changed, budget):
    """Move breaks one at a time while the sum of losses does not rise.

    Stops after `budget` simulated fires, or as many draws. Breaks and sample are kept up to date;
    `changed` (F,) is scratch space. Returns the number of simulated fires.
    """
    bits, simulated, draws = grid.closed.size, 0, 0
    starts, losses = sample.starts, sample.losses
    while simulated < budget and draws < budget:
        draws += 1
        slot = draw(proposals.random, 0, breaks.size)
        new = propose(grid, proposals, breaks, slot)
        if new < 0:
            continue
        old = breaks[slot]
        breaks[slot] = new
        lay_breaks(grid, sample.unburnable, breaks)
        change = 0.0
        for n in range(starts.size):
            changed[n] = -1.0
            at = n * bits
            if (
                starts[n] == old
                or touches(grid, sample.burned, at, old)
                or may_change(grid, sample, at, new)
            ):
                changed[n] = burn_fire(grid, starts[n], sample.weathers[n], sample.work, at)
                change += changed[n] - losses[n]
                simulated += 1
        if change > 0.0:
            breaks[slot] = old
            continue
        for n in range(starts.size):
            if changed[n] >= 0.0:
                losses[n] = changed[n]
                for j in range(bits):
                    sample.burned[n * bits + j] = sample.work[n * bits + j]
    return simulated
