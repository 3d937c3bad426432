"""Fire spread by minimum travel time, compiled.

A fire is a shortest-path search from its ignition, cut off at its duration. Cells wait in buckets
by arrival time, each in one bucket at most; a cell whose time improves moves to an earlier bucket,
and one that has been expanded already is expanded again. Floating-point addition is monotone, so
whatever the order, the times come out as the smallest sum over all paths: those of Dijkstra's
algorithm, to the bit.

A lane's scratch space is a stretch of 4-byte words: arrival times with a margin on both sides
(moves beyond the grid lead there, with infinite times), links of the buckets, burned cells in order
of discovery, parents, counters and bucket heads. Between fires all arrivals are the fill, which
lies just above the duration, and all buckets are empty.
"""

from __future__ import annotations

import numpy as np

from briskrl.jit import helper, inlined

BUCKETS = 512
NONE, EXPANDED = -1, -2
"""No cell; a cell that waits in no bucket."""
ZERO, ONE = np.uint64(0), np.uint64(1)

SCRATCH_FILL, SCRATCH_SCALE = 0, 1
SCRATCH_SCALARS = 16


def margin(width, reach):
    """Words before and behind the arrival times that moves of this reach may read."""
    return reach * width + reach


def scratch_words(cells, width, reach):
    """4-byte words of scratch space for one lane, in whole cache lines."""
    words = SCRATCH_SCALARS + cells + 2 * margin(width, reach) + 5 * cells + BUCKETS + 1
    return -(-words // 16) * 16


@inlined
def arrivals_at(base, width, reach):
    """Word of the first arrival time."""
    return base + SCRATCH_SCALARS + reach * width + reach


@inlined
def burned_at(base, cells, width, reach):
    """Word of the first burned cell."""
    return base + SCRATCH_SCALARS + cells + 2 * (reach * width + reach) + 2 * cells


@inlined
def parents_at(base, cells, width, reach):
    """Word of the first predecessor."""
    return burned_at(base, cells, width, reach) + cells


@helper
def clear_scratch(i32, f32, base, cells, width, reach, limit):
    """Make a lane ready for fires of this duration (float32 minutes)."""
    fill = np.nextafter(limit, np.float32(np.inf))
    f32[base + SCRATCH_FILL] = fill
    f32[base + SCRATCH_SCALE] = np.float32(BUCKETS) / limit
    arrivals = arrivals_at(base, width, reach)
    for i in range(cells):
        f32[arrivals + i] = fill
    heads = burned_at(base, cells, width, reach) + 3 * cells
    for b in range(BUCKETS + 1):
        i32[heads + b] = NONE


@helper
def spread(
    i32,
    f32,
    base,
    cells,
    width,
    reach,
    minutes,
    row,
    offsets,
    way,
    count,
    allowed,
    gate,
    start,
    limit,
):
    """Burn from `start` and return the number of burned cells.

    Args:
        i32: Scratch space as integers.
        f32: The same as floats.
        base: First word of the lane.
        cells: Cells of the grid.
        width: Columns of the grid.
        reach: Longest move along an axis.
        minutes: Edge times; those of cell c, direction k are at row + c * count + k.
        row: See minutes.
        offsets: How far in cells each direction leads; that of direction k is at way + k.
        way: See offsets.
        count: K.
        allowed: Bits of the directions that breaks leave open; those of cell c are at gate + c.
        gate: See allowed.
        start: The ignited cell; it must be able to burn.
        limit: Duration in minutes, float32.
    """
    fill = np.nextafter(limit, np.float32(np.inf))
    if f32[base + SCRATCH_FILL] != fill:
        clear_scratch(i32, f32, base, cells, width, reach, limit)
    scale = f32[base + SCRATCH_SCALE]
    arrivals = arrivals_at(base, width, reach)
    burned = burned_at(base, cells, width, reach)
    after, before, heads = burned - 2 * cells, burned - cells, burned + 3 * cells
    f32[arrivals + start] = np.float32(0.0)
    i32[burned] = start
    i32[heads] = start
    i32[after + start] = NONE
    i32[before + start] = NONE
    found, waiting, bucket = 1, 1, 0
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
            to = cell + offsets[way + k]
            old = f32[arrivals + to]
            if new < old and (gates >> np.uint32(k)) & np.uint32(1):
                f32[arrivals + to] = new
                place = np.int64(new * scale)
                if old == fill:
                    i32[burned + found] = to
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
                first = np.int64(i32[heads + place])
                i32[after + to] = first
                i32[before + to] = NONE
                if first >= 0:
                    i32[before + first] = to
                i32[heads + place] = to
    return found


@helper
def forget(i32, f32, base, cells, width, reach, found):
    """Set the burned cells of the last fire back; whoever needs arrivals reads them before."""
    fill = f32[base + SCRATCH_FILL]
    arrivals = arrivals_at(base, width, reach)
    burned = burned_at(base, cells, width, reach)
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


@inlined
def has_bit(bits, at, cell):
    """Whether the bit of a cell is set."""
    return (bits[at + (cell >> 6)] >> np.uint64(cell & 63)) & ONE != ZERO


@helper
def close_gates(allowed, gate, closed, at, cell, height, width, stencil, cuts, pinches):
    """Close every direction that a break at `cell` stops.

    Args:
        allowed: Open directions, bits; those of cell c are at gate + c.
        gate: See allowed.
        closed: Bits of the cells that cannot burn or are treated, this one included, from `at` on.
        at: See closed.
        cell: The treated cell.
        height: Rows.
        width: Columns.
        stencil: A compass's cuts and, behind them, its pinches, flat from element 0 on.
        cuts: Number of cuts.
        pinches: Number of pinches.
    """
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
    """Whether a fire that burned these cells could end otherwise with a break at `cell`.

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
