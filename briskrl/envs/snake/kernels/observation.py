"""Observations: features, reachable space, and planes."""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, inline_helper
from briskrl.envs.snake.kernels.board import (
    CONNECTED,
    FOOD,
    FOOD_COL,
    FOOD_ROW,
    HEAD,
    HEAD_COL,
    HEAD_ROW,
    HEADING,
    LENGTH,
    MIRROR,
    OBS_EXTENDED,
    OBS_FEATURES,
    OBS_GRID,
    OPEN,
    R_BOARD,
    R_CELLS,
    R_CENTERED,
    R_EGO,
    R_HEIGHT,
    R_OBS,
    R_ONE,
    R_REACHABLE,
    R_RING,
    R_RING_MASK,
    R_WIDTH,
    RING_HEAD,
    bit,
    clear_bit,
    clear_region,
    delta,
    first_free,
    in_region,
    region_at,
    set_bit,
    size_of_region,
    spread,
    tail_of,
    touches_free,
)


@inline_helper
def observe(params, state, i32, i16, base, obs, at, lane):
    """Write the observation of a game to obs[at:]."""
    kind = params[R_OBS]
    if kind == OBS_GRID:
        observe_grid(params, state, i32, i16, base, obs, at, lane)
        return
    observe_features(i16, base, obs, at)
    if kind != OBS_FEATURES:
        observe_flood(params, state, i32, i16, base, obs, at, lane)
    if kind == OBS_EXTENDED:
        observe_extended(params, state, i32, i16, base, obs, at, lane)


@inline_helper
def write_bearing(obs, at, row, col, to_row, to_col, mirror):
    """Four flags: the target lies above, right, below, left."""
    if mirror:
        col, to_col = to_col, col
    obs[at] = to_row < row
    obs[at + 1] = to_col > col
    obs[at + 2] = to_row > row
    obs[at + 3] = to_col < col


@inline_helper
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


@inline_helper
def resolve(params, state, i32, i16, base, lane):
    """Recompute CONNECTED, which a move clears when it may have changed.

    Returns the size of the region in the lane's first scratch bitboard: the one around a free cell
    beside the head, if there is one.
    """
    small = base * 4
    free = params[R_CELLS] - i32[base * 2 + LENGTH]
    if free == 0 or i16[small + CONNECTED]:
        i16[small + CONNECTED] = 1
        return 0
    stride, head = params[R_WIDTH] + 1, np.int64(i16[small + HEAD])
    cell = 0
    for turn in (0, 1, 3):
        near = head + delta((np.int64(i16[small + HEADING]) + turn) & 3, stride)
        if cell == 0 and bit(state, base, near):
            cell = near
    if cell == 0:
        cell = first_free(params, state, base)
    size = size_of_region(params, state, base, region_at(params, lane, 0), cell)
    i16[small + CONNECTED] = np.int64(size == free)
    return size


@helper
def space_beyond(params, state, base, cell, lane, sizes):
    """Number of free cells connected with a free cell; uses known regions where possible."""
    for slot in range(2):
        region = region_at(params, lane, slot)
        if sizes[slot] and in_region(params, state, region, cell):
            return sizes[slot], sizes
    slot = 1 if sizes[1] == 0 else 2
    size = size_of_region(params, state, base, region_at(params, lane, slot), cell)
    return size, (sizes[0], size if slot == 1 else sizes[1])


@helper
def space_with_tail(params, state, i16, base, tail, free, lane):
    """Number of cells connected with the tail's cell, including it, if it were free."""
    if i16[base * 4 + CONNECTED]:
        return free + 1 if touches_free(params, state, base, tail) else 1
    set_bit(state, base, tail)
    size = size_of_region(params, state, base, region_at(params, lane, 2), tail)
    clear_bit(state, base, tail)
    return size


@inline_helper
def observe_flood(params, state, i32, i16, base, obs, at, lane):
    """Write the reachable space of each move to obs[at + 11:]."""
    small, stride = base * 4, params[R_WIDTH] + 1
    free = params[R_CELLS] - np.int64(i32[base * 2 + LENGTH])
    head, heading = np.int64(i16[small + HEAD]), np.int64(i16[small + HEADING])
    tail = tail_of(params, i32, i16, base)
    moves = np.int64(i16[small + OPEN])
    sizes = (resolve(params, state, i32, i16, base, lane), 0)
    for place in range(3):
        turn = place + (place >> 1)
        share = np.float32(0.0)
        if (moves >> turn) & 1:
            cell = head + delta((heading + turn) & 3, stride)
            if cell == tail:
                size = space_with_tail(params, state, i16, base, tail, free, lane)
                share = np.float32(size) / np.float32(free + 1)
            elif i16[small + CONNECTED]:
                share = np.float32(1.0)
            else:
                size, sizes = space_beyond(params, state, base, cell, lane, sizes)
                share = np.float32(size) / np.float32(free)
        shown = (3 - place) % 3 if i16[small + MIRROR] else place
        obs[at + 11 + shown] = share


@helper
def tail_in_reach(params, state, base, head, tail, lane):
    """Whether free cells connect the head with the tail, or the two touch."""
    stride, region = params[R_WIDTH] + 1, region_at(params, lane, 0)
    clear_region(params, state, region)
    for direction in range(4):
        cell = head + delta(direction, stride)
        if cell == tail:
            return True
        if bit(state, base, cell):
            set_bit(state, region - (params[R_BOARD] >> 6), cell)
    spread(params, state, base, region)
    for direction in range(4):
        if in_region(params, state, region, tail + delta(direction, stride)):
            return True
    return False


@helper
def observe_extended(params, state, i32, i16, base, obs, at, lane):
    """Write open neighbors, tail and length to obs[at + 14:]."""
    small, stride = base * 4, params[R_WIDTH] + 1
    head, heading = np.int64(i16[small + HEAD]), np.int64(i16[small + HEADING])
    moves, mirror = np.int64(i16[small + OPEN]), i16[small + MIRROR]
    for place in range(3):
        turn = place + (place >> 1)
        cell = head + delta((heading + turn) & 3, stride)
        open_sides = touches_free(params, state, base, cell) if (moves >> turn) & 1 else 0
        shown = (3 - place) % 3 if mirror else place
        obs[at + 14 + shown] = np.float32(open_sides) / np.float32(4.0)
    tail = tail_of(params, i32, i16, base)
    row, col = np.int64(i16[small + HEAD_ROW]), np.int64(i16[small + HEAD_COL])
    tail_row = (tail - params[R_BOARD]) // stride
    tail_col = (tail - params[R_BOARD]) % stride
    write_bearing(obs, at + 17, row, col, tail_row, tail_col, mirror)
    obs[at + 21] = tail_in_reach(params, state, base, head, tail, lane)
    distance = abs(row - tail_row) + abs(col - tail_col)
    obs[at + 22] = np.float32(distance) / np.float32(params[R_HEIGHT] + params[R_WIDTH] - 2)
    obs[at + 23] = np.float32(i32[base * 2 + LENGTH]) / np.float32(params[R_CELLS])


@inline_helper
def frame_of(params, i16, base):
    """Place of board cells in a plane: (row, col) is at origin + row * down + col * right."""
    small = base * 4
    height, width = params[R_HEIGHT], params[R_WIDTH]
    mirror, heading = i16[small + MIRROR], np.int64(i16[small + HEADING])
    row, col = np.int64(0), np.int64(0)
    side = np.int64(1)
    if mirror:
        col, side, heading = width - 1, np.int64(-1), -heading & 3
    if params[R_CENTERED]:
        row = height - 1 - np.int64(i16[small + HEAD_ROW])
        col = width - 1 - side * np.int64(i16[small + HEAD_COL])
        height, width = 2 * height - 1, 2 * width - 1
    if not params[R_EGO]:
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
def observe_grid(params, state, i32, i16, base, obs, at, lane):
    """Write the planes of a game to obs[at:]."""
    small, board, stride = base * 4, params[R_BOARD], params[R_WIDTH] + 1
    origin, down, right, plane = frame_of(params, i16, base)
    origin += at
    full = np.float64(params[R_ONE])
    last_plane = 5 + params[R_REACHABLE]
    for k in range(at, at + plane * last_plane):
        obs[k] = 0
    # Division by the stride as a product; exact for every cell below 2**16.
    inverse = (1 << 32) // stride + 1
    length, newest = np.int64(i32[base * 2 + LENGTH]), np.int64(i16[small + RING_HEAD])
    ring, mask = small + params[R_RING], params[R_RING_MASK]
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
    if params[R_REACHABLE]:
        show_reachable(params, state, i32, i16, base, obs, origin + 5 * plane, down, right, lane)
    if params[R_CENTERED]:
        outside = at + plane * last_plane
        for k in range(outside, outside + plane):
            obs[k] = full
        for row in range(params[R_HEIGHT]):
            for col in range(params[R_WIDTH]):
                obs[origin + last_plane * plane + row * down + col * right] = 0


@helper
def show_reachable(params, state, i32, i16, base, obs, origin, down, right, lane):
    """Mark the free cells that can be reached by a move that is not fatal."""
    small, stride, region = base * 4, params[R_WIDTH] + 1, region_at(params, lane, 0)
    head, heading = np.int64(i16[small + HEAD]), np.int64(i16[small + HEADING])
    tail = tail_of(params, i32, i16, base)
    moves = np.int64(i16[small + OPEN])
    clear_region(params, state, region)
    through_tail = False
    for turn in (0, 1, 3):
        if (moves >> turn) & 1:
            cell = head + delta((heading + turn) & 3, stride)
            through_tail |= cell == tail
            set_bit(state, region - (params[R_BOARD] >> 6), cell)
    if through_tail:
        set_bit(state, base, tail)
    spread(params, state, base, region)
    if through_tail:
        clear_bit(state, base, tail)
        clear_bit(state, region - (params[R_BOARD] >> 6), tail)
    for row in range(params[R_HEIGHT]):
        for col in range(params[R_WIDTH]):
            if in_region(params, state, region, params[R_BOARD] + row * stride + col):
                obs[origin + row * down + col * right] = params[R_ONE]
