"""Episodes of fuel-break placement: fires, steps and rewards, bound to the generic step loop."""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, inline_helper
from briskrl.envs.kernels.episode_log import REC_EXTRA, record
from briskrl.envs.kernels.rng import GOLDEN, MIX_1, MIX_2, draw
from briskrl.envs.kernels.step_loop import EnvFunctions, build_step_kernels
from briskrl.envs.wildfire.kernels.burning import burn_all, burn_changed
from briskrl.envs.wildfire.kernels.layout import (
    BUDGET,
    DROPPED,
    ENDED,
    EPISODE,
    FIRE_RNG,
    KEY,
    LAND,
    LOSS,
    LOSS_FIRST,
    MODE_FRESH,
    MODE_ROUND,
    MODE_SET,
    NONE_LEGAL,
    P_CLOSED,
    P_COUNT,
    P_FIXED,
    P_IGNITION,
    P_LEGAL,
    PINNED,
    R_BITS,
    R_BUDGET,
    R_CELLS,
    R_CUTS,
    R_FIRES,
    R_HEIGHT,
    R_LANDSCAPES,
    R_MODE,
    R_PENALTY,
    R_PER_STEP,
    R_PINCHES,
    R_REWARD,
    R_ROW,
    R_ROW_CLOSED,
    R_ROW_FINAL,
    R_ROW_FIRES,
    R_ROW_GATES,
    R_ROW_LEGAL,
    R_STENCIL,
    R_WEATHER,
    R_WIDTH,
    RETURN,
    REWARD_RELATIVE,
    REWARD_TERMINAL,
    RNG,
    SPENT,
    SPENT_ALL,
    STEPS,
    TREATED,
    open_memory,
)
from briskrl.envs.wildfire.kernels.observation import observe_episode
from briskrl.envs.wildfire.kernels.spread import Breaks, clear_bit, close_gates, has_bit, set_bit

STREAM_LANDSCAPE, STREAM_FIRES = np.uint64(0xA5A5A5A5A5A5A5A5), np.uint64(0x3C3C3C3C3C3C3C3C)
_U27, _U30, _U31, _U32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_SIGNIFICANT = np.uint64(11)
"""Bits of a key that a float64 cannot hold."""


@inline_helper
def mixed(word):
    """The output function of SplitMix64."""
    z = (word ^ (word >> _U30)) * MIX_1
    z = (z ^ (z >> _U27)) * MIX_2
    return z ^ (z >> _U31)


@helper
def ignited(pool, land, params, number):
    """The cell that a random number in 0..2**32-1 selects, by ignition weights."""
    f64 = pool.view(np.float64)
    first = params[P_IGNITION] + land * params[R_CELLS]
    low, high = 0, params[R_CELLS] - 1
    point = np.float64(number) * (1.0 / 4294967296.0) * f64[first + high]
    while low < high:
        middle = (low + high) >> 1
        if f64[first + middle] > point:
            high = middle
        else:
            low = middle + 1
    return low


@helper
def choose_fires(m, base):
    """Draw the sample of fires, or take the landscape's fixed sample."""
    params, pool, i32 = m.params, m.pool, m.i32
    land = np.int64(i32[base * 2 + LAND])
    at = (base + params[R_ROW_FIRES]) * 2
    for n in range(params[R_FIRES]):
        if params[R_MODE] == MODE_SET:
            from_ = params[P_FIXED] + 2 * (land * params[R_FIRES] + n)
            i32[at + 2 * n] = pool.view(np.int32)[from_]
            i32[at + 2 * n + 1] = pool.view(np.int32)[from_ + 1]
        else:
            number = draw(m.state, base + FIRE_RNG, 4294967296)
            i32[at + 2 * n] = ignited(pool, land, params, number)
            i32[at + 2 * n + 1] = draw(m.state, base + FIRE_RNG, params[R_WEATHER])


@helper
def begin_episode(m, base, env, lane):
    """Start a new episode: its landscape and fires depend on the env's seed and its number."""
    params, pool, state, f64, i32 = m.params, m.pool, m.state, m.f64, m.i32
    counter = state[base + RNG] + GOLDEN
    state[base + RNG] = counter
    key = mixed(counter)
    state[base + KEY] = key
    half = base * 2
    land = np.int64(i32[half + PINNED]) - 1
    if land < 0:
        number = mixed(key ^ STREAM_LANDSCAPE) >> _U32
        land = np.int64((number * np.uint64(params[R_LANDSCAPES])) >> _U32)
    i32[half + LAND] = land
    if params[R_MODE] == MODE_ROUND:
        # The same fires for all envs, regardless of their seeds.
        key = mixed((np.uint64(i32[half + EPISODE]) << _U32) ^ np.uint64(land))
    state[base + FIRE_RNG] = mixed(key ^ STREAM_FIRES)
    i32[half + EPISODE] += 1
    for at in (STEPS, SPENT, TREATED, DROPPED):
        i32[half + at] = 0
    i32[half + BUDGET] = min(params[R_BUDGET], pool[params[P_COUNT] + land])
    f64[base + RETURN] = 0.0
    bits, sets = params[R_BITS], pool.view(np.uint64)
    for j in range(bits):
        state[base + params[R_ROW_LEGAL] + j] = sets[params[P_LEGAL] + land * bits + j]
        state[base + params[R_ROW_CLOSED] + j] = sets[params[P_CLOSED] + land * bits + j]
    gates = half + params[R_ROW_GATES] * 2
    for cell in range(params[R_CELLS]):
        m.u32[gates + cell] = np.uint32(0xFFFFFFFF)
    choose_fires(m, base)
    f64[base + LOSS_FIRST] = burn_all(m, base, env, lane)
    f64[base + LOSS] = f64[base + LOSS_FIRST]


@helper
def treat(m, base, cell):
    """Treat a cell; returns whether that was legal."""
    params, state = m.params, m.state
    if cell < 0 or cell >= params[R_CELLS] or not has_bit(state, base + params[R_ROW_LEGAL], cell):
        return False
    clear_bit(state, base + params[R_ROW_LEGAL], cell)
    set_bit(state, base + params[R_ROW_CLOSED], cell)
    m.i32[base * 2 + TREATED] += 1
    gates, closed = (base + params[R_ROW_GATES]) * 2, base + params[R_ROW_CLOSED]
    breaks = Breaks(m.u32, gates, state, closed, params[R_STENCIL:])
    close_gates(breaks, cell, params[R_HEIGHT], params[R_WIDTH], params[R_CUTS], params[R_PINCHES])
    return True


@helper
def place_breaks(m, base, env, lane, actions):
    """Treat the cells of one step; returns the reward and the cause of the end, or 0."""
    params, pool, f64, i32 = m.params, m.pool, m.f64, m.i32
    first = env * params[R_PER_STEP]
    half = base * 2
    slots = min(params[R_PER_STEP], np.int64(i32[half + BUDGET] - i32[half + SPENT]))
    if params[R_MODE] == MODE_FRESH and params[R_REWARD] != REWARD_TERMINAL:
        choose_fires(m, base)
        f64[base + LOSS] = burn_all(m, base, env, lane)
    wrong = 0
    for slot in range(slots):
        cell = actions[first + slot]
        # Several cells at a time may be padded with -1.
        padding = cell == -1 and params[R_PER_STEP] > 1
        if not treat(m, base, cell) and not padding:
            wrong += 1
    i32[half + STEPS] += 1
    i32[half + SPENT] += slots
    i32[half + DROPPED] += wrong
    cause = 0
    if i32[half + SPENT] >= i32[half + BUDGET]:
        cause = SPENT_ALL
    elif pool[params[P_COUNT] + i32[half + LAND]] == i32[half + TREATED]:
        cause = NONE_LEGAL
    value = params.view(np.float64)[R_PENALTY] * wrong
    before = f64[base + LOSS]
    if params[R_REWARD] == REWARD_TERMINAL:
        if cause != 0:
            if params[R_MODE] == MODE_FRESH:
                choose_fires(m, base)
            after = burn_all(m, base, env, lane)
            f64[base + LOSS] = after
            value -= 100.0 * after
        return value, cause
    after = burn_changed(m, base, env, lane, actions, first, slots)
    f64[base + LOSS] = after
    gain = 100.0 * (before - after)
    if params[R_REWARD] == REWARD_RELATIVE:
        untreated = f64[base + LOSS_FIRST]
        gain = gain / untreated if untreated > 0.0 else 0.0
    return value + gain, cause


@inline_helper
def row_words(m):
    """Words per episode."""
    return m.params[R_ROW]


@inline_helper
def advance(m, base, i, lane, actions):
    """Do one step; returns the reward, the cause of the end or 0, and whether it is terminal."""
    reward, cause = place_breaks(m, base, i, lane, actions)
    # The return is the sum of the rewards that trainers get, which are float32.
    m.f64[base + RETURN] += np.float64(np.float32(reward))
    return reward, cause, cause != 0


@helper
def record_episode(m, base, i, lane, log, cause):
    """Write the record of an ended episode; keeps the final action mask."""
    params, state, f64, i32, half = m.params, m.state, m.f64, m.i32, base * 2
    for j in range(params[R_BITS]):
        state[base + params[R_ROW_FINAL] + j] = state[base + params[R_ROW_LEGAL] + j]
    untreated, loss = f64[base + LOSS_FIRST], f64[base + LOSS]
    score = 100.0 * (1.0 - loss / untreated) if untreated > 0.0 else 0.0
    row = record(log, lane, i, i32[half + STEPS], f64[base + RETURN], score, loss == 0.0, cause)
    log[row, REC_EXTRA] = loss
    log[row, REC_EXTRA + 1] = untreated
    log[row, REC_EXTRA + 2] = i32[half + TREATED]
    log[row, REC_EXTRA + 3] = i32[half + LAND]
    log[row, REC_EXTRA + 4] = i32[half + DROPPED]
    log[row, REC_EXTRA + 5] = np.float64(state[base + KEY] >> _SIGNIFICANT)


@inline_helper
def observe(m, base, lane, obs, at):
    """Write the observation to obs[at:]."""
    observe_episode(m.params, m.pool, m.state, m.i32, base, obs, at)


@inline_helper
def rebuild(m, base, i, lane):
    """Burn the fires again: how they spread is not part of the saved state."""
    if m.params[R_REWARD] != REWARD_TERMINAL:
        burn_all(m, base, i, lane)


KERNELS = build_step_kernels(
    EnvFunctions(
        ended=ENDED,
        open_memory=open_memory,
        row_words=row_words,
        begin_episode=begin_episode,
        advance=advance,
        record_episode=record_episode,
        observe=observe,
        observe_final=observe,
        rebuild=rebuild,
    )
)
