"""The rules of ordered visit, bound to the generic step loop.

A grid is one row: scalars, then one word per line of its walls. Behind the rows lie one word per
env with its incidents (bytes 0 to 3 are 1 for regions that are not visited yet, byte 7 is the
region that the last step entered for the first time, or -1) and two grids of scratch per lane.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from briskrl.compiler.jit import helper, inline_helper, kernel
from briskrl.envs.kernels.episode_log import record
from briskrl.envs.kernels.step_loop import EnvFunctions, build_step_kernels
from briskrl.envs.ordered_visit.kernels.grid import ONE, draw_map, region_at, way_to

# Words of a row; then 16-bit numbers of it seen as int16, 32-bit ones as int32, float64.
RNG, TOTAL, WALLS = 0, 3, 4
ENDED, X, Y, VISITED = range(4, 8)
STEPS, RIGHT = 4, 5
"""Number of steps, and of regions visited in the hidden order."""
(
    R_ROW,
    R_SIDE,
    R_SIZE,
    R_REGIONS,
    R_THRESHOLD,
    R_MAX_STEPS,
    R_HIDDEN,
    R_INCIDENTS,
    R_SCRATCH,
) = range(9)
"""Settings: words of a row, the config, the hidden order (four bits per place), and the first words
of incidents and scratch."""
NUM_PARAMS = 9
WALL_SCALE = 1 << 31
"""R_THRESHOLD of a grid full of walls."""
STEP_COST = 0.01
VIEW = 2
"""Cells that are seen in each direction."""
ALL_VISITED, STEP_LIMIT = 1, 2
"""Why an episode ends."""
_ADDRESSED = np.uint64(56)


class Memory(NamedTuple):
    """The arrays of a batch; all but `params` are views of the same memory."""

    params: np.ndarray
    state: np.ndarray
    f64: np.ndarray
    i32: np.ndarray
    i16: np.ndarray


@inline_helper
def open_memory(params, state):
    """The arrays of a batch."""
    i32, i16 = state.view(np.int32), state.view(np.int16)
    return Memory(params, state, state.view(np.float64), i32, i16)


@inline_helper
def row_words(m):
    """Words per grid."""
    return m.params[R_ROW]


@helper
def start_episode(params, state, f64, i32, i16, base, lane):
    """Draw a map and stand in its middle."""
    side = params[R_SIDE]
    scratch = params[R_SCRATCH] + 2 * side * lane
    draw_map(
        state,
        base + RNG,
        base + WALLS,
        scratch,
        side,
        params[R_SIZE],
        params[R_REGIONS],
        params[R_THRESHOLD],
    )
    i16[base * 4 + X] = i16[base * 4 + Y] = side // 2
    i16[base * 4 + VISITED] = 0
    i32[base * 2 + STEPS] = i32[base * 2 + RIGHT] = 0
    f64[base + TOTAL] = 0.0


@inline_helper
def begin_episode(m, base, i, lane):
    """Start a new episode on the running random stream."""
    start_episode(m.params, m.state, m.f64, m.i32, m.i16, base, lane)


@inline_helper
def is_free(params, state, base, x, y):
    """Whether a cell is inside the grid and no wall."""
    side = params[R_SIDE]
    if x < 0 or y < 0 or x >= side or y >= side:
        return False
    return (state[base + WALLS + y] >> np.uint64(x)) & ONE == 0


@inline_helper
def next_hidden(params, visited):
    """The first region of the hidden order that is not visited yet."""
    hidden = params[R_HIDDEN]
    for place in range(params[R_REGIONS]):
        region = (hidden >> (4 * place)) & 15
        if (visited >> region) & 1 == 0:
            return region
    return -1


@helper
def visited_count(visited):
    """Number of regions in a mask."""
    return (visited & 1) + (visited >> 1 & 1) + (visited >> 2 & 1) + (visited >> 3 & 1)


@helper
def move(params, state, i32, i16, base, i, action):
    """Move and enter a region; returns the reward."""
    small = base * 4
    x = np.int64(i16[small + X]) + (action == 1) - (action == 3)
    y = np.int64(i16[small + Y]) + (action == 2) - (action == 0)
    if is_free(params, state, base, x, y):
        i16[small + X], i16[small + Y] = x, y
    x, y = np.int64(i16[small + X]), np.int64(i16[small + Y])
    visited = np.int64(i16[small + VISITED])
    entered = region_at(params[R_SIDE], params[R_SIZE], params[R_REGIONS], x, y)
    reward = -STEP_COST
    if entered >= 0 and (visited >> entered) & 1:
        entered = -1
    if entered >= 0:
        i16[small + VISITED] = visited | (1 << entered)
        if entered == next_hidden(params, visited):
            i32[base * 2 + RIGHT] += 1
            reward += visited_count(visited) + 1.0
    word = params[R_INCIDENTS] + i
    state[word] = np.uint64(entered) << _ADDRESSED
    return reward


@inline_helper
def advance(m, base, i, lane, actions):
    """Take one step; returns the reward, the cause of the end or 0, and whether it is terminal."""
    reward = move(m.params, m.state, m.i32, m.i16, base, i, actions[i])
    m.f64[base + TOTAL] += reward
    m.i32[base * 2 + STEPS] += 1
    if m.i16[base * 4 + VISITED] + 1 == 1 << m.params[R_REGIONS]:
        return np.float32(reward), ALL_VISITED, True
    over = m.i32[base * 2 + STEPS] >= m.params[R_MAX_STEPS]
    return np.float32(reward), STEP_LIMIT if over else 0, False


@inline_helper
def record_episode(m, base, i, lane, log, cause):
    """Write the record of an ended episode: the score is the number of visits in order."""
    right, total = m.i32[base * 2 + RIGHT], m.f64[base + TOTAL]
    won = cause == ALL_VISITED and right == m.params[R_REGIONS]
    record(log, lane, i, m.i32[base * 2 + STEPS], total, right, won, cause)


@helper
def observe_grid(params, state, i16, base, obs, at):
    """Write position, regions and the walls around."""
    side, size = params[R_SIDE], params[R_SIZE]
    small = base * 4
    x, y, visited = i16[small + X], i16[small + Y], np.int64(i16[small + VISITED])
    scale = np.float32(1.0) / np.float32(side)
    obs[at] = np.float32(2 * x - side + 1) * scale
    obs[at + 1] = np.float32(2 * y - side + 1) * scale
    place = at + 2
    for region in range(params[R_REGIONS]):
        # Twice the middle of a region, so that it is a whole number.
        across = 2 * side - size - 1 if region & 1 else size - 1
        down = 2 * side - size - 1 if region & 2 else size - 1
        obs[place] = np.float32(across - 2 * x) * scale * np.float32(0.5)
        obs[place + 1] = np.float32(down - 2 * y) * scale * np.float32(0.5)
        obs[place + 2] = np.float32((visited >> region) & 1)
        place += 3
    for below in range(-VIEW, VIEW + 1):
        for right in range(-VIEW, VIEW + 1):
            free = is_free(params, state, base, x + right, y + below)
            obs[place] = np.float32(0.0) if free else np.float32(1.0)
            place += 1


@inline_helper
def note_open(params, state, i16, base):
    """Note the regions that are not visited yet."""
    word = params[R_INCIDENTS] + base // params[R_ROW]
    bits = np.uint64(0)
    for region in range(params[R_REGIONS]):
        still = np.uint64(i16[base * 4 + VISITED] >> region & 1) ^ ONE
        bits |= still << np.uint64(8 * region)
    state[word] = (state[word] >> _ADDRESSED << _ADDRESSED) | bits


@inline_helper
def observe(m, base, lane, obs, at):
    """Write the observation to obs[at:]."""
    observe_grid(m.params, m.state, m.i16, base, obs, at)
    note_open(m.params, m.state, m.i16, base)


@inline_helper
def observe_final(m, base, lane, obs, at):
    """Write a final observation to obs[at:]."""
    observe_grid(m.params, m.state, m.i16, base, obs, at)


@inline_helper
def rebuild(m, base, i, lane):
    """Do nothing: what is derived from the state is written with observations."""


KERNELS = build_step_kernels(
    EnvFunctions(
        ended=ENDED,
        open_memory=open_memory,
        row_words=row_words,
        begin_episode=begin_episode,
        advance=advance,
        record_episode=record_episode,
        observe=observe,
        observe_final=observe_final,
        rebuild=rebuild,
    )
)


@kernel
def moves_towards(params, state, targets, scratch, moves):
    """Write the first move (N,) of a shortest way to region targets[i], or 0 where it is -1."""
    i16 = state.view(np.int16)
    side = params[R_SIDE]
    for i in range(len(targets)):
        moves[i] = 0
        if targets[i] >= 0:
            base = i * params[R_ROW]
            x, y = np.int64(i16[base * 4 + X]), np.int64(i16[base * 4 + Y])
            walls, size = base + WALLS, params[R_SIZE]
            found = way_to(state, walls, scratch, side, size, params[R_REGIONS], x, y, targets[i])
            moves[i] = max(found, 0)
