"""The fires of one landscape, compiled: what they burn, when, and along which paths."""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, kernel
from briskrl.envs.wildfire.kernels.spread import (
    NONE,
    ZERO,
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
def find_parents(i32, f32, base, cells, width, reach, minutes, row, offsets, count, allowed, found):
    """Write where fire came from into each burned cell; the smallest cell of equally early ones.

    The ignition has no parent. Cells that were not burned keep whatever stood there.
    """
    arrivals = arrivals_at(base, width, reach)
    burned = burned_at(base, cells, width, reach)
    parents = parents_at(base, cells, width, reach)
    for n in range(found):
        i32[parents + i32[burned + n]] = NONE
    for n in range(found):
        cell = np.int64(i32[burned + n])
        gates, time = allowed[cell], f32[arrivals + cell]
        for k in range(count):
            new = time + minutes[row + cell * count + k]
            to = cell + offsets[k]
            if new == f32[arrivals + to] and (gates >> np.uint32(k)) & np.uint32(1):
                known = i32[parents + to]
                if known == NONE or cell < known:
                    i32[parents + to] = cell


@helper
def add_downstream(i32, base, cells, width, reach, found, value, protects, through):
    """Add what lies downstream of each burned cell: its value, and the ends of paths through it.

    Works from the ends of the tree inwards: a cell is done when all its children are.
    """
    burned = burned_at(base, cells, width, reach)
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
def open_gates(allowed, closed, treated, burnable, shape, stencil):
    """Write the open directions (cells,) that the breaks `treated` leave; bits of closed cells."""
    height, width, cuts, pinches = shape[0], shape[1], shape[2], shape[3]
    closed[:] = ZERO
    for cell in range(allowed.size):
        allowed[cell] = np.uint32(0xFFFFFFFF)
        if treated[cell] or not burnable[cell]:
            set_bit(closed, 0, cell)
    for cell in range(allowed.size):
        if treated[cell]:
            close_gates(allowed, 0, closed, 0, cell, height, width, stencil, cuts, pinches)


@kernel
def burn_fires(
    scratch,
    minutes,
    limits,
    offsets,
    allowed,
    closed,
    shape,
    starts,
    weathers,
    value,
    hits,
    counts,
    losses,
):
    """Burn fires one after another: burned cells and lost value of each, and hits per cell."""
    i32, f32, i8 = scratch, scratch.view(np.float32), scratch.view(np.int8)
    width, reach, cells, count = shape[1], shape[4], allowed.size, offsets.size
    burned = burned_at(0, cells, width, reach)
    for n in range(starts.size):
        counts[n], losses[n] = 0, 0.0
        if has_bit(closed, 0, starts[n]):
            continue
        row, limit = weathers[n] * cells * count, limits[weathers[n]]
        found = spread(
            i32,
            f32,
            i8,
            0,
            cells,
            width,
            reach,
            minutes,
            row,
            offsets,
            count,
            allowed,
            starts[n],
            limit,
        )
        counts[n] = found
        for m in range(found):
            cell = i32[burned + m]
            losses[n] += value[cell]
            hits[cell] += 1
        forget(i32, f32, 0, cells, width, reach, found)


@kernel
def trace_fires(
    scratch, minutes, limits, offsets, allowed, closed, shape, starts, weathers, value, sums, work
):
    """Add over fires, per cell (2, cells): value downstream, and paths through; work is scratch."""
    i32, f32, i8 = scratch, scratch.view(np.float32), scratch.view(np.int8)
    width, reach, cells, count = shape[1], shape[4], allowed.size, offsets.size
    burned = burned_at(0, cells, width, reach)
    for n in range(starts.size):
        if has_bit(closed, 0, starts[n]):
            continue
        row, limit = weathers[n] * cells * count, limits[weathers[n]]
        found = spread(
            i32,
            f32,
            i8,
            0,
            cells,
            width,
            reach,
            minutes,
            row,
            offsets,
            count,
            allowed,
            starts[n],
            limit,
        )
        find_parents(i32, f32, 0, cells, width, reach, minutes, row, offsets, count, allowed, found)
        add_downstream(i32, 0, cells, width, reach, found, value, work[0], work[1])
        for m in range(found):
            cell = i32[burned + m]
            sums[0, cell] += work[0, cell]
            sums[1, cell] += work[1, cell]
        forget(i32, f32, 0, cells, width, reach, found)


@kernel
def burn_one(
    scratch, minutes, limits, offsets, allowed, closed, shape, start, weather, arrival, parent
):
    """Burn one fire: arrival minutes (cells,), NaN where it does not come, and predecessors."""
    i32, f32, i8 = scratch, scratch.view(np.float32), scratch.view(np.int8)
    width, reach, cells, count = shape[1], shape[4], allowed.size, offsets.size
    arrival[:] = np.nan
    parent[:] = NONE
    if has_bit(closed, 0, start):
        return
    row = weather * cells * count
    found = spread(
        i32,
        f32,
        i8,
        0,
        cells,
        width,
        reach,
        minutes,
        row,
        offsets,
        count,
        allowed,
        start,
        limits[weather],
    )
    find_parents(i32, f32, 0, cells, width, reach, minutes, row, offsets, count, allowed, found)
    burned, arrivals = burned_at(0, cells, width, reach), arrivals_at(0, width, reach)
    parents = parents_at(0, cells, width, reach)
    for m in range(found):
        cell = i32[burned + m]
        arrival[cell] = f32[arrivals + cell]
        parent[cell] = i32[parents + cell]
    forget(i32, f32, 0, cells, width, reach, found)
