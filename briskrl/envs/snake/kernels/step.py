"""The rules of Snake: starts, moves and episode ends, bound to the generic step loop.

Memory and settings are described in `board.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from briskrl.compiler.jit import helper, inline_helper, kernel
from briskrl.envs.kernels.episode_log import REC_EXTRA, record
from briskrl.envs.kernels.rng import draw
from briskrl.envs.kernels.step_loop import EnvFunctions, build_step_kernels
from briskrl.envs.snake.kernels.board import (
    BODY,
    CONNECTED,
    ENDED,
    FILLED,
    FINAL_HEADING,
    FINAL_MIRROR,
    FINAL_OPEN,
    FOOD,
    FOOD_COL,
    FOOD_ROW,
    HEAD,
    HEAD_COL,
    HEAD_ROW,
    HEADING,
    HUNGER,
    LENGTH,
    MIRROR,
    MIX_ALWAYS,
    MOVES,
    OPEN,
    R_ABSOLUTE,
    R_BOARD,
    R_BOARD_WORDS,
    R_CELLS,
    R_DEATH,
    R_EAT,
    R_EMPTY_BOARD,
    R_HEIGHT,
    R_HUNGER,
    R_LONGEST,
    R_MAX_STEPS,
    R_MIRROR,
    R_MIX,
    R_RING,
    R_RING_MASK,
    R_ROW,
    R_SHAPING,
    R_SHORTEST,
    R_SOLID,
    R_START,
    R_STARVED,
    R_STEP,
    R_TRACK,
    R_WIDTH,
    R_WIN,
    RETURN,
    RING_HEAD,
    RNG,
    SCORE,
    START_CENTER,
    START_CYCLE,
    START_LENGTH,
    START_RANDOM,
    STARVED,
    STEP_LIMIT,
    STEPS,
    TRAPPED,
    WALL,
    bit,
    clear_bit,
    find_head,
    lay_on_cycle,
    lay_straight,
    place_food,
    set_bit,
    stays_connected,
    tail_of,
    touches_free,
)
from briskrl.envs.snake.kernels.observation import observe


@helper
def begin_episode(params, state, f64, i32, i16, base):
    """Begin a new episode on the running random stream."""
    empty = params.view(np.uint64)
    board = base + (params[R_BOARD] >> 6)
    for j in range(params[R_BOARD_WORDS]):
        state[board + j] = empty[R_EMPTY_BOARD + j]
    height, width = params[R_HEIGHT], params[R_WIDTH]
    start, mix = params[R_START], params[R_MIX]
    if start == START_CYCLE and not (
        mix == MIX_ALWAYS or (mix > 0 and draw(state, base + RNG, MIX_ALWAYS) < mix)
    ):
        start = START_CENTER
    length, heading = 3, 1
    if start == START_CYCLE:
        length = params[R_SHORTEST] + draw(
            state, base + RNG, params[R_LONGEST] - params[R_SHORTEST] + 1
        )
        offset = draw(state, base + RNG, params[R_CELLS])
        heading = lay_on_cycle(params, state, i16, base, length, offset)
    elif start == START_RANDOM:
        heading = draw(state, base + RNG, 4)
        if heading & 1:
            k = draw(state, base + RNG, height * (width - 2))
            row, col = k // (width - 2), k % (width - 2) + (2 if heading == 1 else 0)
        else:
            k = draw(state, base + RNG, (height - 2) * width)
            row, col = k // width + (2 if heading == 2 else 0), k % width
        lay_straight(params, state, i16, base, row, col, heading)
    else:
        lay_straight(params, state, i16, base, height // 2, width // 2, heading)
    f64[base + RETURN] = 0.0
    small, half = base * 4, base * 2
    i32[half + STEPS] = 0
    i32[half + HUNGER] = 0
    i32[half + SCORE] = 0
    i32[half + LENGTH] = length
    i16[small + START_LENGTH] = length
    i16[small + RING_HEAD] = length - 1
    i16[small + HEADING] = heading
    place_food(params, state, i16, base, params[R_CELLS] - length)
    i16[small + MIRROR] = draw(state, base + RNG, 2) if params[R_MIRROR] else 0
    find_head(params, i16, base)
    find_moves(params, state, i32, i16, base)
    i16[small + CONNECTED] = 0


@inline_helper
def find_moves(params, state, i32, i16, base):
    """Set the relative directions that do not collide."""
    small, stride = base * 4, params[R_WIDTH] + 1
    head = np.int64(i16[small + HEAD])
    around = (
        bit(state, base, head - stride)
        | bit(state, base, head + 1) << 1
        | bit(state, base, head + stride) << 2
        | bit(state, base, head - 1) << 3
    )
    if not params[R_SOLID]:
        tail = tail_of(params, i32, i16, base)
        around |= (
            np.int64(tail == head - stride)
            | np.int64(tail == head + 1) << 1
            | np.int64(tail == head + stride) << 2
            | np.int64(tail == head - 1) << 3
        )
    i16[small + OPEN] = ((around | around << 4) >> np.int64(i16[small + HEADING])) & MOVES


@inline_helper
def shift_body(params, state, i32, i16, base, cell):
    """Move the head to a cell and the tail away; keeps CONNECTED only if it certainly holds."""
    small = base * 4
    tail = tail_of(params, i32, i16, base)
    if params[R_TRACK] and i16[small + CONNECTED] and tail != cell:
        known = stays_connected(params, state, base, cell)
        clear_bit(state, base, cell)
        if params[R_CELLS] - i32[base * 2 + LENGTH] > 1:
            known &= np.int64(touches_free(params, state, base, tail) > 0)
        i16[small + CONNECTED] = known
    set_bit(state, base, tail)
    clear_bit(state, base, cell)
    push(params, i16, base, cell)


@inline_helper
def push(params, i16, base, cell):
    """Append a cell to the ring, as the new head."""
    small = base * 4
    newest = (np.int64(i16[small + RING_HEAD]) + 1) & params[R_RING_MASK]
    i16[small + RING_HEAD] = newest
    i16[small + params[R_RING] + newest] = cell
    i16[small + HEAD] = cell


@inline_helper
def grow_body(params, state, i32, i16, base, cell):
    """Move the head to a cell and keep the tail; keeps CONNECTED only if it certainly holds."""
    i32[base * 2 + LENGTH] += 1
    i32[base * 2 + SCORE] += 1
    i32[base * 2 + HUNGER] = 0
    if params[R_TRACK] and i16[base * 4 + CONNECTED]:
        i16[base * 4 + CONNECTED] = stays_connected(params, state, base, cell)
    clear_bit(state, base, cell)
    push(params, i16, base, cell)


@inline_helper
def turn_of(params, i16, base, action):
    """The relative direction of an action."""
    if params[R_ABSOLUTE]:
        turn = (action - np.int64(i16[base * 4 + HEADING])) & 3
        return 0 if turn == 2 else turn
    if i16[base * 4 + MIRROR]:
        action = (3 - action) % 3
    return action + (action >> 1)


@inline_helper
def move(params, values, state, i32, i16, base, action):
    """Play one move; returns the reward and the cause of the end, or 0."""
    small, half = base * 4, base * 2
    turn = turn_of(params, i16, base, action)
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
        inside = 0 <= row < params[R_HEIGHT] and 0 <= col < params[R_WIDTH]
        return values[R_DEATH], BODY if inside else WALL
    cell = np.int64(i16[small + HEAD]) + down * (params[R_WIDTH] + 1) + right
    i16[small + HEAD_ROW] = row
    i16[small + HEAD_COL] = col
    if cell == i16[small + FOOD]:
        grow_body(params, state, i32, i16, base, cell)
        free = params[R_CELLS] - i32[half + LENGTH]
        if free == 0:
            i16[small + FOOD] = -1
            return values[R_EAT] + values[R_WIN], FILLED
        place_food(params, state, i16, base, free)
        reward = values[R_EAT]
    else:
        # A move changes the distance to the food only along its own axis.
        if down:
            ahead = (np.int64(i16[small + FOOD_ROW]) - row) * down
        else:
            ahead = (np.int64(i16[small + FOOD_COL]) - col) * right
        shaping = values[R_SHAPING]
        reward = values[R_STEP] + (shaping if ahead >= 0 else -shaping)
        shift_body(params, state, i32, i16, base, cell)
        if hunger >= params[R_HUNGER] and params[R_HUNGER] > 0:
            return reward + values[R_STARVED], STARVED
    if steps >= params[R_MAX_STEPS] and params[R_MAX_STEPS] > 0:
        return reward, STEP_LIMIT
    return reward, 0


@helper
def rebuild(params, state, i32, i16, base):
    """Recompute everything that follows from body, heading and food."""
    empty = params.view(np.uint64)
    board = base + (params[R_BOARD] >> 6)
    for j in range(params[R_BOARD_WORDS]):
        state[board + j] = empty[R_EMPTY_BOARD + j]
    small, stride = base * 4, params[R_WIDTH] + 1
    newest = np.int64(i16[small + RING_HEAD])
    for i in range(i32[base * 2 + LENGTH]):
        place = (newest - i) & params[R_RING_MASK]
        clear_bit(state, base, np.int64(i16[small + params[R_RING] + place]))
    food = np.int64(i16[small + FOOD]) - params[R_BOARD]
    if i16[small + FOOD] >= 0:
        i16[small + FOOD_ROW] = food // stride
        i16[small + FOOD_COL] = food % stride
    find_head(params, i16, base)
    find_moves(params, state, i32, i16, base)
    i16[small + CONNECTED] = 0


class Memory(NamedTuple):
    """The arrays of a batch of games."""

    params: np.ndarray
    """Settings, int64."""
    rewards: np.ndarray
    """The same memory as float64."""
    state: np.ndarray
    """All games, uint64; the other arrays are views of it."""
    f64: np.ndarray
    i32: np.ndarray
    i16: np.ndarray


@inline_helper
def open_memory(params, state):
    """The arrays of a batch."""
    f64, i32, i16 = state.view(np.float64), state.view(np.int32), state.view(np.int16)
    return Memory(params, params.view(np.float64), state, f64, i32, i16)


@inline_helper
def row_words(m):
    """Words per game."""
    return m.params[R_ROW]


@inline_helper
def begin_game(m, base, i, lane):
    """Start a new episode."""
    begin_episode(m.params, m.state, m.f64, m.i32, m.i16, base)


@inline_helper
def advance(m, base, i, lane, actions):
    """Play one move; returns the reward, the cause of the end or 0, and whether it is terminal."""
    reward, cause = move(m.params, m.rewards, m.state, m.i32, m.i16, base, actions[i])
    # The return is the sum of the rewards that trainers get, which are float32.
    m.f64[base + RETURN] += np.float64(np.float32(reward))
    find_moves(m.params, m.state, m.i32, m.i16, base)
    return reward, cause, cause not in (0, STARVED, STEP_LIMIT)


@inline_helper
def record_episode(m, base, i, lane, log, cause):
    """Write the record of an ended episode."""
    record_game(m.params, m.f64, m.i32, m.i16, base, i, lane, log, cause)


@helper
def record_game(params, f64, i32, i16, base, i, lane, log, cause):
    """Write the record and keep what the final action mask needs; not inlined, as it is rare."""
    small, half = base * 4, base * 2
    i16[small + FINAL_OPEN] = i16[small + OPEN]
    i16[small + FINAL_HEADING] = i16[small + HEADING]
    i16[small + FINAL_MIRROR] = i16[small + MIRROR]
    steps, score = i32[half + STEPS], i32[half + SCORE]
    row = record(log, lane, i, steps, f64[base + RETURN], score, cause == FILLED, cause)
    log[row, REC_EXTRA] = i32[half + LENGTH] / params[R_CELLS]
    log[row, REC_EXTRA + 1] = i16[small + START_LENGTH]


@inline_helper
def observe_game(m, base, lane, obs, at):
    """Write the observation to obs[at:]."""
    observe(m.params, m.state, m.i32, m.i16, base, obs, at, lane)


@inline_helper
def observe_final(m, base, lane, obs, at):
    """Write the final observation to obs[at:]."""
    observe_rarely(m.params, m.state, m.i32, m.i16, base, obs, at, lane)


@helper
def observe_rarely(params, state, i32, i16, base, obs, at, lane):
    """`observe`, not inlined, as episodes rarely end."""
    observe(params, state, i32, i16, base, obs, at, lane)


@inline_helper
def rebuild_game(m, base, i, lane):
    """Recompute what is derived from body, heading and food."""
    rebuild(m.params, m.state, m.i32, m.i16, base)


KERNELS = build_step_kernels(
    EnvFunctions(
        ended=ENDED,
        open_memory=open_memory,
        row_words=row_words,
        begin_episode=begin_game,
        advance=advance,
        record_episode=record_episode,
        observe=observe_game,
        observe_final=observe_final,
        rebuild=rebuild_game,
    )
)


@kernel
def write_masks(params, state, moves_at, mask):
    """Write the actions (N, A) that do not collide at once, from OPEN or FINAL_OPEN."""
    i16 = state.view(np.int16)
    # Heading and mirror of OPEN or of FINAL_OPEN.
    heading_at = HEADING if moves_at == OPEN else FINAL_HEADING
    mirror_at = MIRROR if moves_at == OPEN else FINAL_MIRROR
    for i in range(mask.shape[0]):
        small = i * params[R_ROW] * 4
        moves, heading = np.int64(i16[small + moves_at]), np.int64(i16[small + heading_at])
        for action in range(mask.shape[1]):
            turn = action + (action >> 1)
            if params[R_ABSOLUTE]:
                turn = (action - heading) & 3
                turn = 0 if turn == 2 else turn
            elif i16[small + mirror_at] and turn:
                turn = 4 - turn
            mask[i, action] = (moves >> turn) & 1
