"""The fires of one landscape: what they burn, when, and along which paths."""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, kernel
from briskrl.envs.wildfire.kernels.spread import (
    CUTS,
    HEIGHT,
    NONE,
    PINCHES,
    REACH,
    WIDTH,
    ZERO,
    Breaks,
    arrivals_at,
    burned_at,
    close_gates,
    forget,
    has_bit,
    parents_at,
    set_bit,
    spread,
)


@helper
def find_parents(grid, weather, found):
    """Write where fire came from into each burned cell; the smallest cell of equally early ones.

    The ignition has no parent. Cells that were not burned keep their old entries.
    """
    i32, f32 = grid.scratch, grid.scratch.view(np.float32)
    cells, width, reach = grid.allowed.size, grid.shape[WIDTH], grid.shape[REACH]
    count, minutes, offsets = grid.offsets.size, grid.minutes, grid.offsets
    row = weather * cells * count
    arrivals = arrivals_at(0, width, reach)
    burned = burned_at(0, cells, width, reach)
    parents = parents_at(0, cells, width, reach)
    for n in range(found):
        i32[parents + i32[burned + n]] = NONE
    for n in range(found):
        cell = np.int64(i32[burned + n])
        gates, time = grid.allowed[cell], f32[arrivals + cell]
        for k in range(count):
            new = time + minutes[row + cell * count + k]
            to = cell + offsets[k]
            if new == f32[arrivals + to] and (gates >> np.uint32(k)) & np.uint32(1):
                known = i32[parents + to]
                if known == NONE or cell < known:
                    i32[parents + to] = cell


@helper
def add_downstream(grid, found, protects, through):
    """Sum what lies downstream of each burned cell: its value, and the ends of paths through it.

    Works from the leaves of the tree inward: a cell is done when all its children are.
    """
    i32, cells, value = grid.scratch, grid.allowed.size, grid.value
    burned = burned_at(0, cells, grid.shape[WIDTH], grid.shape[REACH])
    parents, counts = burned + cells, burned + 2 * cells
    for n in range(found):
        i32[counts + i32[burned + n]] = 0
    for n in range(found):
        parent = i32[parents + i32[burned + n]]
        if parent >= 0:
            i32[counts + parent] += 1
    for n in range(found):
        cell = np.int64(i32[burned + n])
        protects[cell] = value[cell]
        through[cell] = 1.0 if i32[counts + cell] == 0 else 0.0
    for n in range(found):
        cell = np.int64(i32[burned + n])
        while cell >= 0 and i32[counts + cell] == 0:
            i32[counts + cell] = NONE
            parent = np.int64(i32[parents + cell])
            if parent >= 0:
                protects[parent] += protects[cell]
                through[parent] += through[cell]
                i32[counts + parent] -= 1
            cell = parent


@kernel
def open_gates(grid, treated, burnable):
    """Write the closed cells and the open directions (cells,) that the breaks `treated` leave."""
    shape, allowed, closed = grid.shape, grid.allowed, grid.closed
    closed[:] = ZERO
    for cell in range(allowed.size):
        allowed[cell] = np.uint32(0xFFFFFFFF)
        if treated[cell] or not burnable[cell]:
            set_bit(closed, 0, cell)
    breaks = Breaks(allowed, 0, closed, 0, grid.stencil)
    for cell in range(allowed.size):
        if treated[cell]:
            close_gates(breaks, cell, shape[HEIGHT], shape[WIDTH], shape[CUTS], shape[PINCHES])


@kernel
def burn_fires(grid, starts, weathers, hits, counts, losses):
    """Burn fires one after another: burned cells and lost value of each, and hits per cell."""
    i32, value = grid.scratch, grid.value
    burned = burned_at(0, grid.allowed.size, grid.shape[WIDTH], grid.shape[REACH])
    for n in range(starts.size):
        counts[n], losses[n] = 0, 0.0
        if has_bit(grid.closed, 0, starts[n]):
            continue
        found = spread(grid, starts[n], weathers[n])
        counts[n] = found
        for m in range(found):
            cell = i32[burned + m]
            losses[n] += value[cell]
            hits[cell] += 1
        forget(grid, found)


@kernel
def trace_fires(grid, starts, weathers, sums, work):
    """Add over fires, per cell (2, cells): value downstream, and paths through; work is scratch."""
    i32 = grid.scratch
    burned = burned_at(0, grid.allowed.size, grid.shape[WIDTH], grid.shape[REACH])
    for n in range(starts.size):
        if has_bit(grid.closed, 0, starts[n]):
            continue
        found = spread(grid, starts[n], weathers[n])
        find_parents(grid, weathers[n], found)
        add_downstream(grid, found, work[0], work[1])
        for m in range(found):
            cell = i32[burned + m]
            sums[0, cell] += work[0, cell]
            sums[1, cell] += work[1, cell]
        forget(grid, found)


@kernel
def burn_one(grid, start, weather, arrival, parent):
    """Burn one fire: arrival minutes (cells,), NaN where it does not come, and predecessors."""
    i32, f32 = grid.scratch, grid.scratch.view(np.float32)
    cells, width, reach = grid.allowed.size, grid.shape[WIDTH], grid.shape[REACH]
    arrival[:] = np.nan
    parent[:] = NONE
    if has_bit(grid.closed, 0, start):
        return
    found = spread(grid, start, weather)
    find_parents(grid, weather, found)
    burned, arrivals = burned_at(0, cells, width, reach), arrivals_at(0, width, reach)
    parents = parents_at(0, cells, width, reach)
    for m in range(found):
        cell = i32[burned + m]
        arrival[cell] = f32[arrivals + cell]
        parent[cell] = i32[parents + cell]
    forget(grid, found)
