"""Fire spread by minimum travel time, compiled.

A fire is a shortest-path search from its ignition, cut off at its duration. Cells wait in buckets
by arrival time, each in at most one bucket; a cell whose time improves moves to an earlier bucket,
and a cell that has been expanded already is expanded again. Floating-point addition is monotone, so
in any order the times are the smallest sum over all paths: those of Dijkstra's algorithm, to the
bit.

A lane's scratch space is a stretch of 4-byte words: arrival times with a margin on both sides
(moves beyond the grid lead there, with infinite times), links of the buckets, burned cells in order
of discovery, parents, counters, bucket heads, and the directions that fire came in. Between fires
all arrivals are the fill, which lies just above the duration, and all buckets are empty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from briskrl.compiler.jit import helper, inline_helper

BUCKETS = 512
NONE, EXPANDED = -1, -2
"""No cell; a cell that is in no bucket."""
ZERO, ONE = np.uint64(0), np.uint64(1)

IGNITION = 100
"""Incoming direction of the ignition cell; -1 where there is no fire."""
SCRATCH_FILL = 0
SCRATCH_SCALARS = 16
HEIGHT, WIDTH, CUTS, PINCHES, REACH = range(5)
"""Places in the shape of a FireGrid."""


def margin(width, reach):
    """Cells before and behind a grid that moves of this reach may read."""
    return reach * width + reach


def scratch_words(cells, width, reach):
    """4-byte words of scratch space for one lane, in whole cache lines."""
    wide = cells + 2 * margin(width, reach)
    words = SCRATCH_SCALARS + wide + 5 * cells + BUCKETS + 1 + -(-wide // 4)
    return -(-words // 16) * 16


@inline_helper
def arrivals_at(base, width, reach):
    """Word of the first arrival time."""
    return base + SCRATCH_SCALARS + reach * width + reach


@inline_helper
def burned_at(base, cells, width, reach):
    """Word of the first burned cell."""
    return base + SCRATCH_SCALARS + cells + 2 * (reach * width + reach) + 2 * cells


@inline_helper
def parents_at(base, cells, width, reach):
    """Word of the first predecessor."""
    return burned_at(base, cells, width, reach) + cells


@inline_helper
def ways_at(base, cells, width, reach):
    """Byte of the first direction that fire came in."""
    after_heads = burned_at(base, cells, width, reach) + 3 * cells + BUCKETS + 1
    return after_heads * 4 + reach * width + reach


@helper
def clear_scratch(i32, f32, base, cells, width, reach, fill):
    """Prepare a lane for fires whose unburned cells hold `fill`."""
    f32[base + SCRATCH_FILL] = fill
    arrivals = arrivals_at(base, width, reach)
    for i in range(cells):
        f32[arrivals + i] = fill
    heads = burned_at(base, cells, width, reach) + 3 * cells
    for b in range(BUCKETS + 1):
        i32[heads + b] = NONE


@inline_helper
def fill_of(limit):
    """Arrival time of unburned cells: the next float after the duration."""
    return np.nextafter(limit, np.float32(np.inf))


@inline_helper
def scale_of(limit):
    """Buckets per minute."""
    return np.float32(BUCKETS) / limit


@inline_helper
def enqueue(i32, after, before, heads, cell, place):
    """Insert a cell at the front of a bucket."""
    first = np.int64(i32[heads + place])
    i32[after + cell] = first
    i32[before + cell] = NONE
    if first >= 0:
        i32[before + first] = cell
    i32[heads + place] = cell


class FireMemory(NamedTuple):
    """Where one fire is computed."""

    i32: np.ndarray
    """The memory as integers."""
    f32: np.ndarray
    """The same as floats."""
    i8: np.ndarray
    """The same as bytes."""
    lists: int
    """Word of the lane's list of burned cells; its links and buckets lie around it."""
    arrivals: int
    """Word of the first arrival time."""
    ways: int
    """Byte of the first direction; each burned cell gets the one that fire came in."""
    cells: int
    """Cells of the grid."""


class Edges(NamedTuple):
    """The graph that fires spread on."""

    minutes: np.ndarray
    """Edge times; those of cell c, direction k are at row + c * K + k."""
    row: int
    offsets: np.ndarray
    """How far in cells each direction leads; that of direction k is at turn + k."""
    turn: int
    directions: int
    """Number of directions, K."""
    allowed: np.ndarray
    """Bits of the directions that breaks leave open; those of cell c are at gate + c."""
    gate: int


class FireGrid(NamedTuple):
    """One landscape, ready to burn in the scratch space of one thread."""

    scratch: np.ndarray
    """int32."""
    minutes: np.ndarray
    """Edge times of all weather scenarios (B, cells, K), flat."""
    limits: np.ndarray
    """(B,): duration of fires in minutes, float32."""
    offsets: np.ndarray
    """(K,): how far in cells each direction leads."""
    allowed: np.ndarray
    """(cells,): bits of the directions that breaks leave open."""
    closed: np.ndarray
    """Bitmap of the cells that are treated or cannot burn."""
    shape: np.ndarray
    """(5,): see HEIGHT, WIDTH, CUTS, PINCHES, REACH."""
    stencil: np.ndarray
    """A compass's cuts and, behind them, its pinches, flat."""
    value: np.ndarray
    """(cells,)"""


@helper
def flood(fire, edges, limit, found, waiting, bucket):
    """Expand what waits in the buckets until nothing does; returns the number of burned cells.

    Args:
        fire: See FireMemory.
        edges: See Edges.
        limit: Duration in minutes, float32.
        found: Cells in the list so far.
        waiting: Cells in buckets.
        bucket: The first bucket that may hold any.
    """
    i32, f32, i8, lists, arrivals, ways, cells = fire
    minutes, row, offsets, turn, count, allowed, gate = edges
    fill, scale = fill_of(limit), scale_of(limit)
    after, before, heads = lists - 2 * cells, lists - cells, lists + 3 * cells
    while waiting > 0:
        cell = np.int64(i32[heads + bucket])
        if cell < 0:
            bucket += 1
            continue
        follower = np.int64(i32[after + cell])
        i32[heads + bucket] = follower
        if follower >= 0:
            i32[before + follower] = NONE
        i32[before + cell] = EXPANDED
        waiting -= 1
        time = f32[arrivals + cell]
        edge = row + cell * count
        gates = allowed[gate + cell]
        for k in range(count):
            new = time + minutes[edge + k]
            to = cell + offsets[turn + k]
            old = f32[arrivals + to]
            if new < old and (gates >> np.uint32(k)) & np.uint32(1):
                f32[arrivals + to] = new
                i8[ways + to] = k
                place = np.int64(new * scale)
                if old == fill:
                    i32[lists + found] = to
                    found += 1
                    waiting += 1
                elif i32[before + to] == EXPANDED:
                    waiting += 1
                else:
                    was = np.int64(old * scale)
                    if was == place:
                        continue
                    earlier, later = np.int64(i32[before + to]), np.int64(i32[after + to])
                    if earlier >= 0:
                        i32[after + earlier] = later
                    else:
                        i32[heads + was] = later
                    if later >= 0:
                        i32[before + later] = earlier
                enqueue(i32, after, before, heads, to, place)
    return found


@helper
def ignite(fire, edges, start, limit):
    """Burn from a cell that can burn, over cells that all hold the fill; see `flood`."""
    i32, lists, cells = fire.i32, fire.lists, fire.cells
    fire.f32[fire.arrivals + start] = np.float32(0.0)
    fire.i8[fire.ways + start] = IGNITION
    i32[lists] = start
    enqueue(i32, lists - 2 * cells, lists - cells, lists + 3 * cells, start, 0)
    return flood(fire, edges, limit, 1, 1, 0)


@helper
def spread(grid, start, weather):
    """Burn from `start` in the scratch space of a grid; returns the number of burned cells.

    `forget` must follow.
    """
    i32, f32, i8 = grid.scratch, grid.scratch.view(np.float32), grid.scratch.view(np.int8)
    cells, width, reach = grid.allowed.size, grid.shape[WIDTH], grid.shape[REACH]
    count, limit = grid.offsets.size, grid.limits[weather]
    fill = fill_of(limit)
    if f32[SCRATCH_FILL] != fill:
        clear_scratch(i32, f32, 0, cells, width, reach, fill)
    lists, arrivals = burned_at(0, cells, width, reach), arrivals_at(0, width, reach)
    fire = FireMemory(i32, f32, i8, lists, arrivals, ways_at(0, cells, width, reach), cells)
    row = weather * cells * count
    return ignite(
        fire, Edges(grid.minutes, row, grid.offsets, 0, count, grid.allowed, 0), start, limit
    )


@helper
def forget(grid, found):
    """Reset the burned cells of the last fire; read its arrival times before."""
    i32, f32 = grid.scratch, grid.scratch.view(np.float32)
    cells, width, reach = grid.allowed.size, grid.shape[WIDTH], grid.shape[REACH]
    fill = f32[SCRATCH_FILL]
    arrivals = arrivals_at(0, width, reach)
    burned = burned_at(0, cells, width, reach)
    for n in range(found):
        f32[arrivals + i32[burned + n]] = fill


@helper
def set_bit(bits, at, cell):
    """Set the bit of a cell in the words from `at` on."""
    bits[at + (cell >> 6)] |= ONE << np.uint64(cell & 63)


@helper
def clear_bit(bits, at, cell):
    """Clear the bit of a cell."""
    bits[at + (cell >> 6)] &= ~(ONE << np.uint64(cell & 63))


@inline_helper
def has_bit(bits, at, cell):
    """Whether the bit of a cell is set."""
    return (bits[at + (cell >> 6)] >> np.uint64(cell & 63)) & ONE != ZERO


class Breaks(NamedTuple):
    """The breaks of a landscape and what they stop."""

    allowed: np.ndarray
    """Open directions, bits; those of cell c are at gate + c."""
    gate: int
    closed: np.ndarray
    """Bits of the cells that cannot burn or are treated, from `at` on."""
    at: int
    stencil: np.ndarray
    """A compass's cuts and, behind them, its pinches, flat from element 0 on."""


@helper
def close_gates(breaks, cell, height, width, cuts, pinches):
    """Close every direction that a break at `cell`, which is closed already, stops.

    Args:
        breaks: See Breaks; written to.
        cell: The treated cell.
        height: Rows.
        width: Columns.
        cuts: Number of cuts.
        pinches: Number of pinches.
    """
    allowed, gate, closed, at, stencil = breaks
    row, col = cell // width, cell % width
    for n in range(cuts):
        r, c = row + stencil[3 * n], col + stencil[3 * n + 1]
        if r >= 0 and r < height and c >= 0 and c < width:
            allowed[gate + r * width + c] &= ~(np.uint32(1) << np.uint32(stencil[3 * n + 2]))
    for n in range(pinches):
        p = 3 * cuts + 5 * n
        r, c = row + stencil[p + 2], col + stencil[p + 3]
        if r >= 0 and r < height and c >= 0 and c < width and has_bit(closed, at, r * width + c):
            r, c = row + stencil[p], col + stencil[p + 1]
            if r >= 0 and r < height and c >= 0 and c < width:
                allowed[gate + r * width + c] &= ~(np.uint32(1) << np.uint32(stencil[p + 4]))


@helper
def can_change(burned, at, cell, height, width, pairs, first, count):
    """Whether a break at `cell` could change a fire that burned these cells.

    It can if it burned the cell, or both ends of a move that the break may stop: fire can pass
    over a corner of a cell that it does not reach in time.
    """
    if has_bit(burned, at, cell):
        return True
    row, col = cell // width, cell % width
    for n in range(count):
        p = first + 4 * n
        r, c = row + pairs[p], col + pairs[p + 1]
        if r < 0 or r >= height or c < 0 or c >= width:
            continue
        if not has_bit(burned, at, r * width + c):
            continue
        r, c = row + pairs[p + 2], col + pairs[p + 3]
        if r >= 0 and r < height and c >= 0 and c < width and has_bit(burned, at, r * width + c):
            return True
    return False
