"""Walls, regions and shortest ways on a grid whose lines are masks of 64 bits.

Line y of a grid is one word; bit x of it is the cell (x, y). Regions are squares in the corners:
bit 0 of their number chooses east, bit 1 south.
"""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, inline_helper
from briskrl.envs.kernels.rng import draw_word

ZERO, ONE = np.uint64(0), np.uint64(1)
MOST_TRIES = 100
"""Maps that are drawn before one without walls is taken."""


@inline_helper
def region_line(side, size, region, y):
    """Cells of a region on line y, as a mask."""
    first = side - size if region & 2 else 0
    if y < first or y >= first + size:
        return ZERO
    cells = (ONE << np.uint64(size)) - ONE
    return cells << np.uint64(side - size if region & 1 else 0)


@helper
def region_at(side, size, regions, x, y):
    """The region of a cell, or -1."""
    for region in range(regions):
        if (region_line(side, size, region, y) >> np.uint64(x)) & ONE:
            return region
    return -1


@inline_helper
def all_regions_line(side, size, regions, y):
    """Cells of any region on line y."""
    cells = ZERO
    for region in range(regions):
        cells |= region_line(side, size, region, y)
    return cells


@inline_helper
def around(cells, first, side, y):
    """The cells of line y that are in a set or beside a cell of it."""
    here = cells[first + y]
    found = here | (here << ONE) | (here >> ONE)
    if y > 0:
        found |= cells[first + y - 1]
    if y + 1 < side:
        found |= cells[first + y + 1]
    return found


@helper
def draw_walls(state, rng, walls, side, size, regions, threshold):
    """Draw walls everywhere but in regions and in the middle."""
    middle = side // 2
    for y in range(side):
        line = ZERO
        for x in range(side):
            wall = draw_word(state, rng) >> np.uint64(33) < np.uint64(threshold)
            line |= np.uint64(wall) << np.uint64(x)
        if y == middle:
            line &= ~(ONE << np.uint64(middle))
        state[walls + y] = line & ~all_regions_line(side, size, regions, y)


@helper
def flood(state, walls, cells, side, size, regions):
    """Grow the set of cells that begins at word `cells` through all but walls and regions."""
    full = (ONE << np.uint64(side)) - ONE
    changed = True
    while changed:
        changed = False
        for y in range(side):
            blocked = state[walls + y] | all_regions_line(side, size, regions, y)
            grown = state[cells + y] | (around(state, cells, side, y) & full & ~blocked)
            if grown != state[cells + y]:
                state[cells + y] = grown
                changed = True


@helper
def is_within_reach(state, walls, scratch, side, size, regions):
    """Whether every region can be entered from the middle without crossing another one."""
    for y in range(side):
        state[scratch + y] = ZERO
    state[scratch + side // 2] = ONE << np.uint64(side // 2)
    flood(state, walls, scratch, side, size, regions)
    for region in range(regions):
        touched = False
        for y in range(side):
            if around(state, scratch, side, y) & region_line(side, size, region, y):
                touched = True
        if not touched:
            return False
    return True


@helper
def draw_map(state, rng, walls, scratch, side, size, regions, threshold):
    """Draw walls until all regions are within reach."""
    for _ in range(MOST_TRIES):
        draw_walls(state, rng, walls, side, size, regions, threshold)
        if is_within_reach(state, walls, scratch, side, size, regions):
            return
    for y in range(side):
        state[walls + y] = ZERO


@helper
def way_to(state, walls, scratch, side, size, regions, x, y, target):
    """The first move of a shortest way to a region that crosses no other one; -1 if there is none.

    Cells are reached from the region outwards, one step at a time, until a neighbor of (x, y) is.
    Moves are 0 north, 1 east, 2 south, 3 west.
    """
    full = (ONE << np.uint64(side)) - ONE
    own = region_at(side, size, regions, x, y)
    for line in range(side):
        state[scratch + line] = region_line(side, size, target, line)
    for _ in range(side * side):
        for move in range(4):
            to_x = x + (move == 1) - (move == 3)
            to_y = y + (move == 2) - (move == 0)
            inside = 0 <= to_x < side and 0 <= to_y < side
            if inside and (state[scratch + to_y] >> np.uint64(to_x)) & ONE:
                return move
        changed = False
        for line in range(side):
            state[scratch + side + line] = around(state, scratch, side, line)
        for line in range(side):
            blocked = state[walls + line]
            for region in range(regions):
                if region != target and region != own:
                    blocked |= region_line(side, size, region, line)
            grown = state[scratch + side + line] & full & ~blocked
            if grown != state[scratch + line]:
                state[scratch + line] |= grown
                changed = True
        if not changed:
            return -1
    return -1
