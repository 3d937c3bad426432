"""The compiled Snake game: rules, observations, and one loop over all games of a batch.

A game is one row of 64-bit words: ROW_SCALARS words of scalars, a bitboard of the free cells, and
the body as a ring of 16-bit cells. Arrays with other number types are views of the same memory. A
cell is the number of its bit in the row. Each board row ends with a guard bit that is never free,
and there are zero words before and after the board, so that a step off the board lands on a bit that is
not free.

`rules` holds the settings as int64 words (see the R_ names), rewards as float64 in the same words,
and behind them the bitboard of an empty board. Directions are absolute (up, right, down, left) or
relative to the heading (straight, right, back, left).
"""

from __future__ import annotations

import numpy as np

from briskrl.envs.kernels import REC_EXTRA, draw, record, tick
from briskrl.jit import helper, kernel

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
    R_CENTRED,
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
START_CENTRE, START_RANDOM, START_CYCLE = range(3)
MIX_ALWAYS = 1 << 32
"""Value of R_MIX that needs no draw, like 0."""

SAME_STEP, NEXT_STEP, DISABLED, RESET, LOOK = range(5)
"""What the loop does: the three ways to treat ended games, start the ended ones, or just look."""

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
    """For each set of free cells around a cell, whether that cell is no bridge between its sides.

    Bits 0..7 are the neighbours in reading order. True if the free ones of the four sides hang
    together through the ring of eight, so that taking the cell away cuts no free cells apart.
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


@helper
def popcount(x):
    """Number of ones; compilers turn this idiom into one instruction."""
    x = x - ((x >> ONE) & PAIRS)
    x = (x & QUADS) + ((x >> U2) & QUADS)
    x = (x + (x >> U4)) & BYTES
    return np.int64((x * SUM) >> U56)


@helper
def bit(words, base, cell):
    """Whether a cell's bit is set: 0 or 1 as int64."""
    return np.int64((words[base + (cell >> 6)] >> np.uint64(cell & 63)) & ONE)


@helper
def three_bits(words, base, cell):
    """The bits of a cell and the two after it, as int64."""
    at, shift = base + (cell >> 6), np.uint64(cell & 63)
    # Two shifts, because one by 64 is undefined.
    joined = (words[at] >> shift) | ((words[at + 1] << ONE) << (U63 - shift))
    return np.int64(joined) & 7


@helper
def set_bit(words, base, cell):
    """Set a cell's bit."""
    words[base + (cell >> 6)] |= ONE << np.uint64(cell & 63)


@helper
def clear_bit(words, base, cell):
    """Clear a cell's bit."""
    words[base + (cell >> 6)] &= ~(ONE << np.uint64(cell & 63))


@helper
def delta(direction, stride):
    """What a step in an absolute direction adds to a cell."""
    sign = 1 - (direction & 2)
    return sign if direction & 1 else -sign * stride


@helper
def tail_of(rules, i32, i16, base):
    """The last cell of the body."""
    length, newest = np.int64(i32[base * 2 + LENGTH]), np.int64(i16[base * 4 + RING_HEAD])
    return np.int64(i16[base * 4 + rules[R_RING] + ((newest - length + 1) & rules[R_RING_MASK])])


@helper
def place_food(rules, words, i16, base, free):
    """Put food on the k-th of `free` free cells in row-major order, by one draw."""
    k = draw(words, base + RNG, free)
    at = base + (rules[R_BOARD] >> 6)
    word = words[at]
    count = popcount(word)
    while count <= k:
        k -= count
        at += 1
        word = words[at]
        count = popcount(word)
    for _ in range(k):
        word &= word - ONE
    cell = ((at - base) << 6) + popcount((word & (~word + ONE)) - ONE)
    stride = rules[R_WIDTH] + 1
    row = (cell - rules[R_BOARD]) // stride
    i16[base * 4 + FOOD] = cell
    i16[base * 4 + FOOD_ROW] = row
    i16[base * 4 + FOOD_COL] = cell - rules[R_BOARD] - row * stride


@helper
def cycle_cell(rules, k):
    """Row and column of place k on the fixed Hamiltonian cycle."""
    height, width = rules[R_HEIGHT], rules[R_WIDTH]
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
def lay(rules, words, i16, base, place, row, col):
    """Put one body cell on an empty part of the board; returns the cell."""
    cell = rules[R_BOARD] + row * (rules[R_WIDTH] + 1) + col
    i16[base * 4 + rules[R_RING] + place] = cell
    clear_bit(words, base, cell)
    return cell


@helper
def lay_straight(rules, words, i16, base, row, col, heading):
    """Put down three cells with the head at (row, col)."""
    down = (heading == 2) - (heading == 0)
    right = (heading == 1) - (heading == 3)
    for place in range(3):
        lay(rules, words, i16, base, place, row - (2 - place) * down, col - (2 - place) * right)


@helper
def lay_on_cycle(rules, words, i16, base, length, offset):
    """Put down a body along the cycle; returns the heading."""
    cells = rules[R_CELLS]
    previous, last = 0, 0
    for place in range(length):
        row, col = cycle_cell(rules, (offset - (length - 1 - place)) % cells)
        previous, last = last, lay(rules, words, i16, base, place, row, col)
    step = last - previous
    if step == 1:
        return 1
    if step == -1:
        return 3
    return 2 if step > 0 else 0


@helper
def restart(rules, words, f64, i32, i16, base):
    """Begin a new episode on the running random stream."""
    empty = rules.view(np.uint64)
    board = base + (rules[R_BOARD] >> 6)
    for j in range(rules[R_BOARD_WORDS]):
        words[board + j] = empty[R_EMPTY_BOARD + j]
    height, width = rules[R_HEIGHT], rules[R_WIDTH]
    start, mix = rules[R_START], rules[R_MIX]
    if start == START_CYCLE and not (
        mix == MIX_ALWAYS or (mix > 0 and draw(words, base + RNG, MIX_ALWAYS) < mix)
    ):
        start = START_CENTRE
    length, heading = 3, 1
    if start == START_CYCLE:
        length = rules[R_SHORTEST] + draw(
            words, base + RNG, rules[R_LONGEST] - rules[R_SHORTEST] + 1
        )
        offset = draw(words, base + RNG, rules[R_CELLS])
        heading = lay_on_cycle(rules, words, i16, base, length, offset)
    elif start == START_RANDOM:
        heading = draw(words, base + RNG, 4)
        if heading & 1:
            k = draw(words, base + RNG, height * (width - 2))
            row, col = k // (width - 2), k % (width - 2) + (2 if heading == 1 else 0)
        else:
            k = draw(words, base + RNG, (height - 2) * width)
            row, col = k // width + (2 if heading == 2 else 0), k % width
        lay_straight(rules, words, i16, base, row, col, heading)
    else:
        lay_straight(rules, words, i16, base, height // 2, width // 2, heading)
    f64[base + RETURN] = 0.0
    small, half = base * 4, base * 2
    i32[half + STEPS] = 0
    i32[half + HUNGER] = 0
    i32[half + SCORE] = 0
    i32[half + LENGTH] = length
    i16[small + START_LENGTH] = length
    i16[small + RING_HEAD] = length - 1
    i16[small + HEADING] = heading
    i16[small + ENDED] = 0
    place_food(rules, words, i16, base, rules[R_CELLS] - length)
    i16[small + MIRROR] = draw(words, base + RNG, 2) if rules[R_MIRROR] else 0
    find_head(rules, i16, base)
    find_moves(rules, words, i32, i16, base)
    i16[small + CONNECTED] = 0


@helper
def find_head(rules, i16, base):
    """Set the head's cell, row and column from the ring."""
    small = base * 4
    cell = np.int64(i16[small + rules[R_RING] + np.int64(i16[small + RING_HEAD])])
    row = (cell - rules[R_BOARD]) // (rules[R_WIDTH] + 1)
    i16[small + HEAD] = cell
    i16[small + HEAD_ROW] = row
    i16[small + HEAD_COL] = cell - rules[R_BOARD] - row * (rules[R_WIDTH] + 1)


@helper
def find_moves(rules, words, i32, i16, base):
    """Set the relative directions that do not collide."""
    small, stride = base * 4, rules[R_WIDTH] + 1
    head = np.int64(i16[small + HEAD])
    around = (
        bit(words, base, head - stride)
        | bit(words, base, head + 1) << 1
        | bit(words, base, head + stride) << 2
        | bit(words, base, head - 1) << 3
    )
    if not rules[R_SOLID]:
        tail = tail_of(rules, i32, i16, base)
        around |= (
            np.int64(tail == head - stride)
            | np.int64(tail == head + 1) << 1
            | np.int64(tail == head + stride) << 2
            | np.int64(tail == head - 1) << 3
        )
    i16[small + OPEN] = ((around | around << 4) >> np.int64(i16[small + HEADING])) & MOVES


@helper
def spread(rules, words, base, region):
    """Grow the bits at words[region:] to all free cells connected with them; returns their number.

    Words are grown one by one until nothing changes, forwards and backwards in turn, because a
    change travels through all words that lie ahead within one sweep.
    """
    count = rules[R_BOARD_WORDS]
    if count <= 2:
        return spread_small(rules, words, base, region)
    stride = rules[R_WIDTH] + 1
    free = base + (rules[R_BOARD] >> 6)
    far, near = stride >> 6, np.uint64(stride & 63)
    back = U63 - near
    within = far == 0
    forwards, changed = True, True
    while changed:
        changed = False
        for j in range(count):
            k = j if forwards else count - 1 - j
            allowed, at = words[free + k], region + k
            before = words[at]
            grown = before | (before << ONE) | (before >> ONE)
            grown |= (words[at - 1] >> U63) | (words[at + 1] << U63)
            grown |= (words[at - far] << near) | ((words[at - far - 1] >> ONE) >> back)
            grown |= (words[at + far] >> near) | ((words[at + far + 1] << ONE) << back)
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
            words[at] = grown
            changed = True
        forwards = not forwards
    size = 0
    for k in range(count):
        size += popcount(words[region + k])
    return size


@helper
def spread_small(rules, words, base, region):
    """The same for boards of at most two words, which stay in registers."""
    free = base + (rules[R_BOARD] >> 6)
    stride = np.uint64(rules[R_WIDTH] + 1)
    back = np.uint64(64) - stride
    allowed_0, allowed_1 = words[free], words[free + 1]
    now_0, now_1 = words[region], words[region + 1]
    seen_0, seen_1 = ~now_0, now_1
    while seen_0 != now_0 or seen_1 != now_1:
        seen_0, seen_1 = now_0, now_1
        # Sideways first, then up and down from there: diagonals cost one round instead of two.
        wide_0 = (now_0 | now_0 << ONE | now_0 >> ONE | now_1 << U63) & allowed_0
        wide_1 = (now_1 | now_1 << ONE | now_1 >> ONE | now_0 >> U63) & allowed_1
        now_0 = (wide_0 | wide_0 << stride | wide_0 >> stride | wide_1 << back) & allowed_0
        now_1 = (wide_1 | wide_1 << stride | wide_1 >> stride | wide_0 >> back) & allowed_1
    words[region], words[region + 1] = now_0, now_1
    return popcount(now_0) + popcount(now_1)


@helper
def clear_region(rules, words, region):
    """Make a scratch bitboard empty."""
    for k in range(rules[R_BOARD_WORDS]):
        words[region + k] = ZERO


@helper
def region_at(rules, lane, slot):
    """Where the scratch bitboard of a lane begins; pads around it stay zero."""
    pad = rules[R_BOARD] // 64 - ROW_SCALARS
    return rules[R_SCRATCH] + lane * rules[R_ROW] + slot * rules[R_SCRATCH_STRIDE] + pad


@helper
def size_of_region(rules, words, base, region, cell):
    """Number of free cells connected with a free cell; leaves them in words[region:]."""
    clear_region(rules, words, region)
    set_bit(words, region - (rules[R_BOARD] >> 6), cell)
    return spread(rules, words, base, region)


@helper
def in_region(rules, words, region, cell):
    """Whether a cell is in a scratch bitboard: 0 or 1."""
    return bit(words, region - (rules[R_BOARD] >> 6), cell)


@helper
def stays_connected(rules, words, base, cell):
    """Whether taking a cell from connected free cells surely leaves them connected: 0 or 1."""
    stride = rules[R_WIDTH] + 1
    ring = (
        three_bits(words, base, cell - stride - 1)
        | bit(words, base, cell - 1) << 3
        | bit(words, base, cell + 1) << 4
        | three_bits(words, base, cell + stride - 1) << 5
    )
    return np.int64(SIMPLE[ring])


@helper
def touches_free(rules, words, base, cell):
    """Number of free neighbours of a cell."""
    stride = rules[R_WIDTH] + 1
    return (
        bit(words, base, cell - stride)
        + bit(words, base, cell + 1)
        + bit(words, base, cell + stride)
        + bit(words, base, cell - 1)
    )


@helper
def shift_body(rules, words, i32, i16, base, cell):
    """Move the head to a cell and the tail away; CONNECTED stays only if that is sure."""
    small = base * 4
    tail = tail_of(rules, i32, i16, base)
    if rules[R_TRACK] and i16[small + CONNECTED] and tail != cell:
        known = stays_connected(rules, words, base, cell)
        clear_bit(words, base, cell)
        if rules[R_CELLS] - i32[base * 2 + LENGTH] > 1:
            known &= np.int64(touches_free(rules, words, base, tail) > 0)
        i16[small + CONNECTED] = known
    set_bit(words, base, tail)
    clear_bit(words, base, cell)
    push(rules, i16, base, cell)


@helper
def push(rules, i16, base, cell):
    """Add a cell at the head's end of the ring."""
    small = base * 4
    newest = (np.int64(i16[small + RING_HEAD]) + 1) & rules[R_RING_MASK]
    i16[small + RING_HEAD] = newest
    i16[small + rules[R_RING] + newest] = cell
    i16[small + HEAD] = cell


@helper
def grow_body(rules, words, i32, i16, base, cell):
    """Move the head to a cell and keep the tail; CONNECTED stays only if that is sure."""
    i32[base * 2 + LENGTH] += 1
    i32[base * 2 + SCORE] += 1
    i32[base * 2 + HUNGER] = 0
    if rules[R_TRACK] and i16[base * 4 + CONNECTED]:
        i16[base * 4 + CONNECTED] = stays_connected(rules, words, base, cell)
    clear_bit(words, base, cell)
    push(rules, i16, base, cell)


@helper
def turn_of(rules, i16, base, action):
    """The relative direction that an action means."""
    if rules[R_ABSOLUTE]:
        turn = (action - np.int64(i16[base * 4 + HEADING])) & 3
        return 0 if turn == 2 else turn
    if i16[base * 4 + MIRROR]:
        action = (3 - action) % 3
    return action + (action >> 1)


@helper
def move(rules, words, i32, i16, base, action):
    """Play one move; returns the reward and the cause of the end, 0 while the game goes on."""
    values = rules.view(np.float64)
    small, half = base * 4, base * 2
    turn = turn_of(rules, i16, base, action)
    heading = (np.int64(i16[small + HEADING]) + turn) & 3
    moves = np.int64(i16[small + OPEN])
    i16[small + HEADING] = heading
    steps = np.int64(i32[half + STEPS]) + 1
    hunger = np.int64(i32[half + HUNGER]) + 1
    i32[half + STEPS] = steps
    i32[half + HUNGER] = hunger
    down = (heading - 1) if heading & 1 == 0 else 0
    right = (2 - heading) if heading & 1 else 0
    row = np.int64(i16[small + HEAD_ROW]) + down
    col = np.int64(i16[small + HEAD_COL]) + right
    if not (moves >> turn) & 1:
        if moves == 0:
            return values[R_DEATH], TRAPPED
        inside = 0 <= row < rules[R_HEIGHT] and 0 <= col < rules[R_WIDTH]
        return values[R_DEATH], BODY if inside else WALL
    cell = np.int64(i16[small + HEAD]) + down * (rules[R_WIDTH] + 1) + right
    i16[small + HEAD_ROW] = row
    i16[small + HEAD_COL] = col
    if cell == i16[small + FOOD]:
        grow_body(rules, words, i32, i16, base, cell)
        free = rules[R_CELLS] - i32[half + LENGTH]
        if free == 0:
            i16[small + FOOD] = -1
            return values[R_EAT] + values[R_WIN], FILLED
        place_food(rules, words, i16, base, free)
        reward = values[R_EAT]
    else:
        # Only the axis of the move changes its distance to the food.
        if down:
            ahead = (np.int64(i16[small + FOOD_ROW]) - row) * down
        else:
            ahead = (np.int64(i16[small + FOOD_COL]) - col) * right
        shaping = values[R_SHAPING]
        reward = values[R_STEP] + (shaping if ahead >= 0 else -shaping)
        shift_body(rules, words, i32, i16, base, cell)
        if hunger >= rules[R_HUNGER] and rules[R_HUNGER] > 0:
            return reward + values[R_STARVED], STARVED
    if steps >= rules[R_MAX_STEPS] and rules[R_MAX_STEPS] > 0:
        return reward, STEP_LIMIT
    return reward, 0


@helper
def write_bearing(obs, at, row, col, to_row, to_col, mirror):
    """Four flags: the target lies above, right, below, left."""
    if mirror:
        col, to_col = to_col, col
    obs[at] = to_row < row
    obs[at + 1] = to_col > col
    obs[at + 2] = to_row > row
    obs[at + 3] = to_col < col


@helper
def observe_features(i16, base, obs, at):
    """Write the 11 features of a game to obs[at:]."""
    small = base * 4
    moves, heading = np.int64(i16[small + OPEN]), np.int64(i16[small + HEADING])
    mirror = i16[small + MIRROR]
    right, left = (3, 1) if mirror else (1, 3)
    obs[at] = 1 - (moves & 1)
    obs[at + 1] = 1 - ((moves >> right) & 1)
    obs[at + 2] = 1 - ((moves >> left) & 1)
    obs[at + 3] = heading == 0
    obs[at + 4] = heading == right
    obs[at + 5] = heading == 2
    obs[at + 6] = heading == left
    row, col = i16[small + HEAD_ROW], i16[small + HEAD_COL]
    to_row, to_col = i16[small + FOOD_ROW], i16[small + FOOD_COL]
    if i16[small + FOOD] < 0:
        to_row, to_col = row, col
    write_bearing(obs, at + 7, row, col, to_row, to_col, mirror)


@helper
def resolve(rules, words, i32, i16, base, lane):
    """Settle CONNECTED, which a move clears when it is in doubt.

    Returns the size of the region left in the lane's first scratch bitboard: that of a free cell
    beside the head, if there is one.
    """
    small = base * 4
    free = rules[R_CELLS] - i32[base * 2 + LENGTH]
    if free == 0 or i16[small + CONNECTED]:
        i16[small + CONNECTED] = 1
        return 0
    stride, head = rules[R_WIDTH] + 1, np.int64(i16[small + HEAD])
    cell = 0
    for turn in (0, 1, 3):
        near = head + delta((np.int64(i16[small + HEADING]) + turn) & 3, stride)
        if cell == 0 and bit(words, base, near):
            cell = near
    if cell == 0:
        cell = first_free(rules, words, base)
    size = size_of_region(rules, words, base, region_at(rules, lane, 0), cell)
    i16[small + CONNECTED] = np.int64(size == free)
    return size


@helper
def first_free(rules, words, base):
    """The first free cell in row-major order; there must be one."""
    at = base + (rules[R_BOARD] >> 6)
    while words[at] == ZERO:
        at += 1
    return ((at - base) << 6) + popcount((words[at] & (~words[at] + ONE)) - ONE)


@helper
def space_beyond(rules, words, base, cell, lane, sizes):
    """Number of free cells connected with a free cell, by regions already known where possible."""
    for slot in range(2):
        region = region_at(rules, lane, slot)
        if sizes[slot] and in_region(rules, words, region, cell):
            return sizes[slot], sizes
    slot = 1 if sizes[1] == 0 else 2
    size = size_of_region(rules, words, base, region_at(rules, lane, slot), cell)
    return size, (sizes[0], size if slot == 1 else sizes[1])


@helper
def space_with_tail(rules, words, i16, base, tail, free, lane):
    """Number of cells connected with the tail's cell if it were free, itself included."""
    if i16[base * 4 + CONNECTED]:
        return free + 1 if touches_free(rules, words, base, tail) else 1
    set_bit(words, base, tail)
    size = size_of_region(rules, words, base, region_at(rules, lane, 2), tail)
    clear_bit(words, base, tail)
    return size


@helper
def observe_flood(rules, words, i32, i16, base, obs, at, lane):
    """Write the reachable space of each move to obs[at + 11:]."""
    small, stride = base * 4, rules[R_WIDTH] + 1
    free = rules[R_CELLS] - np.int64(i32[base * 2 + LENGTH])
    head, heading = np.int64(i16[small + HEAD]), np.int64(i16[small + HEADING])
    tail = tail_of(rules, i32, i16, base)
    moves = np.int64(i16[small + OPEN])
    sizes = (resolve(rules, words, i32, i16, base, lane), 0)
    for place in range(3):
        turn = place + (place >> 1)
        share = np.float32(0.0)
        if (moves >> turn) & 1:
            cell = head + delta((heading + turn) & 3, stride)
            if cell == tail:
                size = space_with_tail(rules, words, i16, base, tail, free, lane)
                share = np.float32(size) / np.float32(free + 1)
            elif i16[small + CONNECTED]:
                share = np.float32(1.0)
            else:
                size, sizes = space_beyond(rules, words, base, cell, lane, sizes)
                share = np.float32(size) / np.float32(free)
        shown = (3 - place) % 3 if i16[small + MIRROR] else place
        obs[at + 11 + shown] = share


@helper
def tail_in_reach(rules, words, base, head, tail, lane):
    """Whether free cells lead from the head to the tail, or they touch."""
    stride, region = rules[R_WIDTH] + 1, region_at(rules, lane, 0)
    clear_region(rules, words, region)
    for direction in range(4):
        cell = head + delta(direction, stride)
        if cell == tail:
            return True
        if bit(words, base, cell):
            set_bit(words, region - (rules[R_BOARD] >> 6), cell)
    spread(rules, words, base, region)
    for direction in range(4):
        if in_region(rules, words, region, tail + delta(direction, stride)):
            return True
    return False


@helper
def observe_extended(rules, words, i32, i16, base, obs, at, lane):
    """Write open neighbours, tail and length to obs[at + 14:]."""
    small, stride = base * 4, rules[R_WIDTH] + 1
    head, heading = np.int64(i16[small + HEAD]), np.int64(i16[small + HEADING])
    moves, mirror = np.int64(i16[small + OPEN]), i16[small + MIRROR]
    for place in range(3):
        turn = place + (place >> 1)
        cell = head + delta((heading + turn) & 3, stride)
        open_sides = touches_free(rules, words, base, cell) if (moves >> turn) & 1 else 0
        shown = (3 - place) % 3 if mirror else place
        obs[at + 14 + shown] = np.float32(open_sides) / np.float32(4.0)
    tail = tail_of(rules, i32, i16, base)
    row, col = np.int64(i16[small + HEAD_ROW]), np.int64(i16[small + HEAD_COL])
    tail_row = (tail - rules[R_BOARD]) // stride
    tail_col = (tail - rules[R_BOARD]) % stride
    write_bearing(obs, at + 17, row, col, tail_row, tail_col, mirror)
    obs[at + 21] = tail_in_reach(rules, words, base, head, tail, lane)
    distance = abs(row - tail_row) + abs(col - tail_col)
    obs[at + 22] = np.float32(distance) / np.float32(rules[R_HEIGHT] + rules[R_WIDTH] - 2)
    obs[at + 23] = np.float32(i32[base * 2 + LENGTH]) / np.float32(rules[R_CELLS])


@helper
def frame_of(rules, i16, base):
    """Where board cells lie in a plane: (row, col) at origin + row * down + col * right."""
    small = base * 4
    height, width = rules[R_HEIGHT], rules[R_WIDTH]
    mirror, heading = i16[small + MIRROR], np.int64(i16[small + HEADING])
    row, col = np.int64(0), np.int64(0)
    side = np.int64(1)
    if mirror:
        col, side, heading = width - 1, np.int64(-1), -heading & 3
    if rules[R_CENTRED]:
        row = height - 1 - np.int64(i16[small + HEAD_ROW])
        col = width - 1 - side * np.int64(i16[small + HEAD_COL])
        height, width = 2 * height - 1, 2 * width - 1
    if not rules[R_EGO]:
        heading = np.int64(0)
    if heading == 0:
        first, down, right = np.int64(0), width, np.int64(1)
    elif heading == 1:
        first, down, right = (width - 1) * width, np.int64(1), -width
    elif heading == 2:
        first, down, right = width * width - 1, -width, np.int64(-1)
    else:
        first, down, right = width - 1, np.int64(-1), width
    return first + row * down + col * right, down, right * side, height * width


@helper
def observe_grid(rules, words, i32, i16, base, obs, at, lane):
    """Write the planes of a game to obs[at:], of which the caller has given the right number."""
    small, board, stride = base * 4, rules[R_BOARD], rules[R_WIDTH] + 1
    origin, down, right, plane = frame_of(rules, i16, base)
    origin += at
    full = np.float64(rules[R_ONE])
    last_plane = 5 + rules[R_REACHABLE]
    for k in range(at, at + plane * last_plane):
        obs[k] = 0
    # Division by the stride as a product: exact for every cell number below 2**16.
    inverse = (1 << 32) // stride + 1
    length, newest = np.int64(i32[base * 2 + LENGTH]), np.int64(i16[small + RING_HEAD])
    ring, mask = small + rules[R_RING], rules[R_RING_MASK]
    place = origin
    for i in range(length):
        cell = np.int64(i16[ring + ((newest - i) & mask)]) - board
        row = (cell * inverse) >> 32
        place = origin + row * down + (cell - row * stride) * right
        obs[place + plane] = full
        obs[place + 4 * plane] = full * (length - i) / length
    obs[place + 2 * plane] = full
    head = origin + i16[small + HEAD_ROW] * down + i16[small + HEAD_COL] * right
    obs[head] = full
    obs[head + plane] = 0
    if i16[small + FOOD] >= 0:
        food = origin + i16[small + FOOD_ROW] * down + i16[small + FOOD_COL] * right
        obs[food + 3 * plane] = full
    if rules[R_REACHABLE]:
        show_reachable(rules, words, i32, i16, base, obs, origin + 5 * plane, down, right, lane)
    if rules[R_CENTRED]:
        outside = at + plane * last_plane
        for k in range(outside, outside + plane):
            obs[k] = full
        for row in range(rules[R_HEIGHT]):
            for col in range(rules[R_WIDTH]):
                obs[origin + last_plane * plane + row * down + col * right] = 0


@helper
def show_reachable(rules, words, i32, i16, base, obs, origin, down, right, lane):
    """Mark the free cells in the regions that the moves which are not fatal lead into."""
    small, stride, region = base * 4, rules[R_WIDTH] + 1, region_at(rules, lane, 0)
    head, heading = np.int64(i16[small + HEAD]), np.int64(i16[small + HEADING])
    tail = tail_of(rules, i32, i16, base)
    moves = np.int64(i16[small + OPEN])
    clear_region(rules, words, region)
    through_tail = False
    for turn in (0, 1, 3):
        if (moves >> turn) & 1:
            cell = head + delta((heading + turn) & 3, stride)
            through_tail |= cell == tail
            set_bit(words, region - (rules[R_BOARD] >> 6), cell)
    if through_tail:
        set_bit(words, base, tail)
    spread(rules, words, base, region)
    if through_tail:
        clear_bit(words, base, tail)
        clear_bit(words, region - (rules[R_BOARD] >> 6), tail)
    for row in range(rules[R_HEIGHT]):
        for col in range(rules[R_WIDTH]):
            if in_region(rules, words, region, rules[R_BOARD] + row * stride + col):
                obs[origin + row * down + col * right] = rules[R_ONE]


@helper
def rebuild(rules, words, i32, i16, base):
    """Derive everything that follows from body, heading and food anew."""
    empty = rules.view(np.uint64)
    board = base + (rules[R_BOARD] >> 6)
    for j in range(rules[R_BOARD_WORDS]):
        words[board + j] = empty[R_EMPTY_BOARD + j]
    small, stride = base * 4, rules[R_WIDTH] + 1
    newest = np.int64(i16[small + RING_HEAD])
    for i in range(i32[base * 2 + LENGTH]):
        place = (newest - i) & rules[R_RING_MASK]
        clear_bit(words, base, np.int64(i16[small + rules[R_RING] + place]))
    food = np.int64(i16[small + FOOD]) - rules[R_BOARD]
    if i16[small + FOOD] >= 0:
        i16[small + FOOD_ROW] = food // stride
        i16[small + FOOD_COL] = food % stride
    find_head(rules, i16, base)
    find_moves(rules, words, i32, i16, base)
    i16[small + CONNECTED] = 0


@helper
def finish(rules, f64, i32, i16, base, log, lane, env, cause):
    """Record an ended episode and what its last moment allows."""
    small, half = base * 4, base * 2
    i16[small + FINAL_OPEN] = i16[small + OPEN]
    i16[small + FINAL_HEADING] = i16[small + HEADING]
    i16[small + FINAL_MIRROR] = i16[small + MIRROR]
    i16[small + ENDED] = 1
    steps, score = i32[half + STEPS], i32[half + SCORE]
    row = record(log, lane, env, steps, f64[base + RETURN], score, cause == FILLED, cause)
    log[row, REC_EXTRA] = i32[half + LENGTH] / rules[R_CELLS]
    log[row, REC_EXTRA + 1] = i16[small + START_LENGTH]


@helper
def observe(rules, words, i32, i16, base, obs, at, lane):
    """Write what the player of a game sees to obs[at:]."""
    mode = rules[R_OBS]
    if mode == OBS_GRID:
        observe_grid(rules, words, i32, i16, base, obs, at, lane)
        return
    observe_features(i16, base, obs, at)
    if mode != OBS_FEATURES:
        observe_flood(rules, words, i32, i16, base, obs, at, lane)
    if mode == OBS_EXTENDED:
        observe_extended(rules, words, i32, i16, base, obs, at, lane)


@kernel
def step(
    rules,
    words,
    log,
    actions,
    obs,
    reward,
    terminated,
    truncated,
    final_obs,
    low,
    high,
    lane,
    phase,
):
    """Advance the games low..high-1 as `phase` says and write what they show."""
    f64, i32, i16 = words.view(np.float64), words.view(np.int32), words.view(np.int16)
    shown, final = obs.reshape(obs.size), final_obs.reshape(final_obs.size)
    size = obs.size // reward.size
    if phase < RESET:
        tick(log, lane)
    for i in range(low, high):
        base = i * rules[R_ROW]
        ended = i16[base * 4 + ENDED] != 0
        cause = 0
        if phase == LOOK:
            rebuild(rules, words, i32, i16, base)
        elif ended:
            if phase == DISABLED:
                continue
            restart(rules, words, f64, i32, i16, base)
            reward[i], terminated[i], truncated[i] = 0.0, False, False
        elif phase == RESET:
            continue
        else:
            value, cause = move(rules, words, i32, i16, base, actions[i])
            reward[i] = value
            f64[base + RETURN] += np.float64(reward[i])
            terminated[i] = cause not in (0, STARVED, STEP_LIMIT)
            truncated[i] = cause in (STARVED, STEP_LIMIT)
            find_moves(rules, words, i32, i16, base)
        if cause != 0:
            finish(rules, f64, i32, i16, base, log, lane, i, cause)
            if phase == SAME_STEP:
                observe(rules, words, i32, i16, base, final, i * size, lane)
                restart(rules, words, f64, i32, i16, base)
        observe(rules, words, i32, i16, base, shown, i * size, lane)


@kernel
def write_masks(rules, words, moves_at, mask):
    """Which actions do not collide at once (N, A), from OPEN or from FINAL_OPEN."""
    i16 = words.view(np.int16)
    # The heading and mirror that belong to OPEN, or those that belong to FINAL_OPEN.
    heading_at = HEADING if moves_at == OPEN else FINAL_HEADING
    mirror_at = MIRROR if moves_at == OPEN else FINAL_MIRROR
    for i in range(mask.shape[0]):
        small = i * rules[R_ROW] * 4
        moves, heading = np.int64(i16[small + moves_at]), np.int64(i16[small + heading_at])
        for action in range(mask.shape[1]):
            turn = action + (action >> 1)
            if rules[R_ABSOLUTE]:
                turn = (action - heading) & 3
                turn = 0 if turn == 2 else turn
            elif i16[small + mirror_at] and turn:
                turn = 4 - turn
            mask[i, action] = (moves >> turn) & 1
