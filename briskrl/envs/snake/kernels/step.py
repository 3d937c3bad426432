"""The compiled Snake game: starts, moves, and one loop over all games of a batch.

Memory and settings are described in `board/kernels.py`, what players see in `views/kernels.py`.
"""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, inline_helper, kernel
from briskrl.envs.kernels.episode_log import REC_EXTRA, record, tick
from briskrl.envs.kernels.rng import draw
from briskrl.envs.kernels.step_loop import share_of
from briskrl.envs.snake.kernels.board import (
    BODY,
    CONNECTED,
    DISABLED,
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
    LOOK,
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
    RESET,
    RETURN,
    RING_HEAD,
    RNG,
    SAME_STEP,
    SCORE,
    START_CENTRE,
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
    lay_on_cycle,
    lay_straight,
    place_food,
    set_bit,
    stays_connected,
    tail_of,
    touches_free,
)
from briskrl.envs.snake.kernels.observation import observe, observe_again


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


@inline_helper
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


@inline_helper
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


@inline_helper
def push(rules, i16, base, cell):
    """Add a cell at the head's end of the ring."""
    small = base * 4
    newest = (np.int64(i16[small + RING_HEAD]) + 1) & rules[R_RING_MASK]
    i16[small + RING_HEAD] = newest
    i16[small + rules[R_RING] + newest] = cell
    i16[small + HEAD] = cell


@inline_helper
def grow_body(rules, words, i32, i16, base, cell):
    """Move the head to a cell and keep the tail; CONNECTED stays only if that is sure."""
    i32[base * 2 + LENGTH] += 1
    i32[base * 2 + SCORE] += 1
    i32[base * 2 + HUNGER] = 0
    if rules[R_TRACK] and i16[base * 4 + CONNECTED]:
        i16[base * 4 + CONNECTED] = stays_connected(rules, words, base, cell)
    clear_bit(words, base, cell)
    push(rules, i16, base, cell)


@inline_helper
def turn_of(rules, i16, base, action):
    """The relative direction that an action means."""
    if rules[R_ABSOLUTE]:
        turn = (action - np.int64(i16[base * 4 + HEADING])) & 3
        return 0 if turn == 2 else turn
    if i16[base * 4 + MIRROR]:
        action = (3 - action) % 3
    return action + (action >> 1)


@inline_helper
def move(rules, values, words, i32, i16, base, action):
    """Play one move; returns the reward and the cause of the end, 0 while the game goes on."""
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
    values = rules.view(np.float64)
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
            value, cause = move(rules, values, words, i32, i16, base, actions[i])
            reward[i] = value
            f64[base + RETURN] += np.float64(reward[i])
            terminated[i] = cause not in (0, STARVED, STEP_LIMIT)
            truncated[i] = cause in (STARVED, STEP_LIMIT)
            find_moves(rules, words, i32, i16, base)
        if cause != 0:
            finish(rules, f64, i32, i16, base, log, lane, i, cause)
            if phase == SAME_STEP:
                observe_again(rules, words, i32, i16, base, final, i * size, lane)
                restart(rules, words, f64, i32, i16, base)
        observe(rules, words, i32, i16, base, shown, i * size, lane)


share = share_of(step)


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
