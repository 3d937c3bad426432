"""The memory layout of games, bit operations on boards, and placing bodies and food.

A game is one row of 64-bit words: ROW_SCALARS words of scalars, a bitboard of the free cells, and
the body as a ring of 16-bit cells. Arrays with other number types are views of the same memory. A
cell is the index of its bit in the row. Each board row ends with a guard bit that is never free,
and there are zero words before and after the board, so a move off the board hits a bit that is not
free.

`params` holds the settings as int64 words (see the R_ names), rewards as float64 in the same words,
and behind them the bitboard of an empty board. Directions are absolute (up, right, down, left) or
relative to the heading (straight, right, back, left).
"""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, inline_helper
from briskrl.envs.kernels.rng import draw

ROW_SCALARS = 8
RNG, RETURN = 0, 1
# Places of the 32-bit scalars in a row seen as int32, then of the 16-bit ones seen as int16.
STEPS, HUNGER, SCORE, LENGTH = range(4, 8)
HEAD_ROW, HEAD_COL, FOOD_ROW, FOOD_COL, HEADING, OPEN, MIRROR, ENDED = range(16, 24)
RING_HEAD, START_LENGTH, FINAL_OPEN, CONNECTED, FOOD, HEAD, FINAL_HEADING, FINAL_MIRROR = range(
    24, 32
)

(
    R_HEIGHT,
    R_WIDTH,
    R_CELLS,
    R_ROW,
    R_BOARD,
    R_BOARD_WORDS,
    R_RING,
    R_RING_MASK,
    R_SCRATCH,
    R_SCRATCH_STRIDE,
    R_ABSOLUTE,
    R_SOLID,
    R_HUNGER,
    R_MAX_STEPS,
    R_MIRROR,
    R_TRACK,
    R_START,
    R_SHORTEST,
    R_LONGEST,
    R_MIX,
    R_EGO,
    R_CENTERED,
    R_REACHABLE,
    R_ONE,
    R_DEATH,
    R_EAT,
    R_WIN,
    R_STEP,
    R_STARVED,
    R_SHAPING,
    R_OBS,
) = range(31)
R_EMPTY_BOARD = 32
OBS_FEATURES, OBS_FLOOD, OBS_EXTENDED, OBS_GRID = range(4)
START_CENTER, START_RANDOM, START_CYCLE = range(3)
MIX_ALWAYS = 1 << 32
"""Value of R_MIX for always; like 0, it needs no draw."""

WALL, BODY, TRAPPED, STARVED, STEP_LIMIT, FILLED = range(1, 7)
MOVES = 0b1011
"""Relative directions a snake can take: straight, right and left."""

ZERO, ONE, U2, U4, U63 = (np.uint64(n) for n in (0, 1, 2, 4, 63))
PAIRS = np.uint64(0x5555555555555555)
QUADS = np.uint64(0x3333333333333333)
BYTES = np.uint64(0x0F0F0F0F0F0F0F0F)
SUM = np.uint64(0x0101010101010101)
U56 = np.uint64(56)


def _simple_rings() -> np.ndarray:
    """For each set of free cells around a cell, whether that cell is not a bridge between them.

    Bits 0..7 are the neighbors in reading order. True if the free ones of the four sides are
    connected through the ring of eight, so that occupying the cell disconnects no free cells.
    """
    circle = (0, 1, 2, 4, 7, 6, 5, 3)
    simple = np.zeros(256, np.bool_)
    for ring in range(256):
        around = [ring >> bit & 1 for bit in circle]
        arcs = 0
        for side in (1, 3, 5, 7):
            # An arc is counted at its last side: no further side follows without a gap.
            joined = around[(side + 1) % 8] and around[(side + 2) % 8]
            arcs += around[side] and not joined
        simple[ring] = arcs <= 1
    return simple


SIMPLE = _simple_rings()


@inline_helper
def popcount(x):
    """Number of ones; compilers turn this idiom into one instruction."""
    x = x - ((x >> ONE) & PAIRS)
    x = (x & QUADS) + ((x >> U2) & QUADS)
    x = (x + (x >> U4)) & BYTES
    return np.int64((x * SUM) >> U56)


@inline_helper
def bit(state, base, cell):
    """Whether a cell's bit is set: 0 or 1 as int64."""
    return np.int64((state[base + (cell >> 6)] >> np.uint64(cell & 63)) & ONE)


@inline_helper
def three_bits(state, base, cell):
    """The bits of a cell and the two after it, as int64."""
    at, shift = base + (cell >> 6), np.uint64(cell & 63)
    # Two shifts, because one by 64 is undefined.
    joined = (state[at] >> shift) | ((state[at + 1] << ONE) << (U63 - shift))
    return np.int64(joined) & 7


@inline_helper
def set_bit(state, base, cell):
    """Set a cell's bit."""
    state[base + (cell >> 6)] |= ONE << np.uint64(cell & 63)


@inline_helper
def clear_bit(state, base, cell):
    """Clear a cell's bit."""
    state[base + (cell >> 6)] &= ~(ONE << np.uint64(cell & 63))


@inline_helper
def delta(direction, stride):
    """What a step in an absolute direction adds to a cell."""
    sign = 1 - (direction & 2)
    return sign if direction & 1 else -sign * stride


@helper
def find_head(params, i16, base):
    """Set the head's cell, row and column from the ring."""
    small = base * 4
    cell = np.int64(i16[small + params[R_RING] + np.int64(i16[small + RING_HEAD])])
    row = (cell - params[R_BOARD]) // (params[R_WIDTH] + 1)
    i16[small + HEAD] = cell
    i16[small + HEAD_ROW] = row
    i16[small + HEAD_COL] = cell - params[R_BOARD] - row * (params[R_WIDTH] + 1)


@inline_helper
def tail_of(params, i32, i16, base):
    """The last cell of the body."""
    length, newest = np.int64(i32[base * 2 + LENGTH]), np.int64(i16[base * 4 + RING_HEAD])
    return np.int64(i16[base * 4 + params[R_RING] + ((newest - length + 1) & params[R_RING_MASK])])


@inline_helper
def touches_free(params, state, base, cell):
    """Number of free neighbors of a cell."""
    stride = params[R_WIDTH] + 1
    return (
        bit(state, base, cell - stride)
        + bit(state, base, cell + 1)
        + bit(state, base, cell + stride)
        + bit(state, base, cell - 1)
    )


@inline_helper
def stays_connected(params, state, base, cell):
    """1 if connected free cells certainly stay connected when a cell is occupied, else 0."""
    stride = params[R_WIDTH] + 1
    ring = (
        three_bits(state, base, cell - stride - 1)
        | bit(state, base, cell - 1) << 3
        | bit(state, base, cell + 1) << 4
        | three_bits(state, base, cell + stride - 1) << 5
    )
    return np.int64(SIMPLE[ring])


@helper
def first_free(params, state, base):
    """The first free cell in row-major order; there must be one."""
    at = base + (params[R_BOARD] >> 6)
    while state[at] == ZERO:
        at += 1
    return ((at - base) << 6) + popcount((state[at] & (~state[at] + ONE)) - ONE)


@inline_helper
def region_at(params, lane, slot):
    """First word of a scratch bitboard of a lane; the padding around it stays zero."""
    pad = params[R_BOARD] // 64 - ROW_SCALARS
    return params[R_SCRATCH] + lane * params[R_ROW] + slot * params[R_SCRATCH_STRIDE] + pad


@inline_helper
def clear_region(params, state, region):
    """Clear a scratch bitboard."""
    for k in range(params[R_BOARD_WORDS]):
        state[region + k] = ZERO


@inline_helper
def in_region(params, state, region, cell):
    """Whether a cell is in a scratch bitboard: 0 or 1."""
    return bit(state, region - (params[R_BOARD] >> 6), cell)


@inline_helper
def size_of_region(params, state, base, region, cell):
    """Number of free cells connected with a free cell; leaves them in state[region:]."""
    clear_region(params, state, region)
    set_bit(state, region - (params[R_BOARD] >> 6), cell)
    return spread(params, state, base, region)


@helper
def spread(params, state, base, region):
    """Grow the bits at state[region:] to all free cells connected with them; returns their number.

    Words are grown one by one until nothing changes, forward and backward in turn, because a change
    travels through all words ahead within one sweep.
    """
    count = params[R_BOARD_WORDS]
    if count <= 2:
        return spread_small(params, state, base, region)
    stride = params[R_WIDTH] + 1
    free = base + (params[R_BOARD] >> 6)
    far, near = stride >> 6, np.uint64(stride & 63)
    back = U63 - near
    within = far == 0
    forwards, changed = True, True
    while changed:
        changed = False
        for j in range(count):
            k = j if forwards else count - 1 - j
            allowed, at = state[free + k], region + k
            before = state[at]
            grown = before | (before << ONE) | (before >> ONE)
            grown |= (state[at - 1] >> U63) | (state[at + 1] << U63)
            grown |= (state[at - far] << near) | ((state[at - far - 1] >> ONE) >> back)
            grown |= (state[at + far] >> near) | ((state[at + far + 1] << ONE) << back)
            grown &= allowed
            if grown == before:
                continue
            seen = ZERO
            while grown != seen:
                seen = grown
                grown |= (grown << ONE) | (grown >> ONE)
                if within:
                    grown |= (seen << near) | (seen >> near)
                grown &= allowed
            state[at] = grown
            changed = True
        forwards = not forwards
    size = 0
    for k in range(count):
        size += popcount(state[region + k])
    return size


@inline_helper
def spread_small(params, state, base, region):
    """The same for boards of at most two words, which stay in registers."""
    free = base + (params[R_BOARD] >> 6)
    stride = np.uint64(params[R_WIDTH] + 1)
    back = np.uint64(64) - stride
    allowed_0, allowed_1 = state[free], state[free + 1]
    now_0, now_1 = state[region], state[region + 1]
    seen_0, seen_1 = ~now_0, now_1
    while seen_0 != now_0 or seen_1 != now_1:
        seen_0, seen_1 = now_0, now_1
        # Sideways first, then up and down from there: diagonals cost one round instead of two.
        wide_0 = (now_0 | now_0 << ONE | now_0 >> ONE | now_1 << U63) & allowed_0
        wide_1 = (now_1 | now_1 << ONE | now_1 >> ONE | now_0 >> U63) & allowed_1
        now_0 = (wide_0 | wide_0 << stride | wide_0 >> stride | wide_1 << back) & allowed_0
        now_1 = (wide_1 | wide_1 << stride | wide_1 >> stride | wide_0 >> back) & allowed_1
    state[region], state[region + 1] = now_0, now_1
    return popcount(now_0) + popcount(now_1)


@helper
def place_food(params, state, i16, base, free):
    """Put food on the k-th of `free` free cells in row-major order, by one draw."""
    k = draw(state, base + RNG, free)
    at = base + (params[R_BOARD] >> 6)
    word = state[at]
    count = popcount(word)
    while count <= k:
        k -= count
        at += 1
        word = state[at]
        count = popcount(word)
    for _ in range(k):
        word &= word - ONE
    cell = ((at - base) << 6) + popcount((word & (~word + ONE)) - ONE)
    stride = params[R_WIDTH] + 1
    row = (cell - params[R_BOARD]) // stride
    i16[base * 4 + FOOD] = cell
    i16[base * 4 + FOOD_ROW] = row
    i16[base * 4 + FOOD_COL] = cell - params[R_BOARD] - row * stride


@helper
def cycle_cell(params, k):
    """Row and column of place k on the fixed Hamiltonian cycle."""
    height, width = params[R_HEIGHT], params[R_WIDTH]
    transposed = height & 1
    if transposed:
        height, width = width, height
    row, col = 0, k
    if k >= width:
        k -= width
        inner = (height - 1) * (width - 1)
        if k < inner:
            row = 1 + k // (width - 1)
            step = k % (width - 1)
            col = width - 1 - step if row & 1 else 1 + step
        else:
            row, col = height - 1 - (k - inner), 0
    return (col, row) if transposed else (row, col)


@helper
def lay(params, state, i16, base, place, row, col):
    """Put one body cell on an empty part of the board; returns the cell."""
    cell = params[R_BOARD] + row * (params[R_WIDTH] + 1) + col
    i16[base * 4 + params[R_RING] + place] = cell
    clear_bit(state, base, cell)
    return cell


@helper
def lay_straight(params, state, i16, base, row, col, heading):
    """Put down three cells with the head at (row, col)."""
    down = (heading == 2) - (heading == 0)
    right = (heading == 1) - (heading == 3)
    for place in range(3):
        lay(params, state, i16, base, place, row - (2 - place) * down, col - (2 - place) * right)


@helper
def lay_on_cycle(params, state, i16, base, length, offset):
    """Put down a body along the cycle; returns the heading."""
    cells = params[R_CELLS]
    previous, last = 0, 0
    for place in range(length):
        row, col = cycle_cell(params, (offset - (length - 1 - place)) % cells)
        previous, last = last, lay(params, state, i16, base, place, row, col)
    step = last - previous
    if step == 1:
        return 1
    if step == -1:
        return 3
    return 2 if step > 0 else 0
