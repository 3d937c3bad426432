"""One episode, compiled: drawing and burning its fires, treating cells, beginning anew.

An episode is a row of words: scalars, then fires (cell and weather), their losses, bitmaps of what
each burned, bitmaps of legal and closed cells, and the open directions of every cell. Everything
about landscapes is in the pool, which `rules` holds the address of and which is only read.
"""

from __future__ import annotations

import numpy as np

from briskrl.envs.kernels import GOLDEN, MIX_1, MIX_2, draw
from briskrl.envs.wildfire.spread.kernels import (
    ZERO,
    burned_at,
    can_change,
    clear_bit,
    close_gates,
    forget,
    has_bit,
    set_bit,
    spread,
)
from briskrl.jit import helper, inlined

RNG, RETURN, LOSS_FIRST, LOSS, FIRE_RNG, KEY = range(6)
"""Words of a row; losses are shares of all value."""
LAND, STEPS, SPENT, BUDGET, TREATED, DROPPED, PINNED = range(12, 19)
"""Halves of words; PINNED is a landscape plus one, or 0 for any."""
ENDED = 40
"""A quarter of a word."""
ROW_SCALARS = 16

(
    R_POOL,
    R_HEIGHT,
    R_WIDTH,
    R_CELLS,
    R_BITS,
    R_DIRECTIONS,
    R_REACH,
    R_CUTS,
    R_PINCHES,
    R_PAIRS,
    R_LANDSCAPES,
    R_WEATHER,
    R_FIRES,
    R_MODE,
    R_REWARD,
    R_BUDGET,
    R_PER_STEP,
    R_PENALTY,
    R_ROW,
    R_ROW_FIRES,
    R_ROW_LOSSES,
    R_ROW_BURNED,
    R_ROW_LEGAL,
    R_ROW_FINAL,
    R_ROW_CLOSED,
    R_ROW_GATES,
    R_SCRATCH,
    R_SCRATCH_STRIDE,
    R_CHANNELS,
    R_STATIC,
    P_MINUTES,
    P_LIMITS,
    P_PLANES,
    P_VALUE,
    P_IGNITION,
    P_TOTAL,
    P_LEGAL,
    P_CLOSED,
    P_COUNT,
    P_FIXED,
    P_OFFSETS,
    P_PAIRS,
) = range(42)
"""Places in the rules. R_ROW_* hold places in a row, in words; P_* places in the pool, in elements
of their own type."""
R_CHANNEL = 48
"""Code of the first channel; see CHANNEL_*. The stencil begins at R_STENCIL."""
R_STENCIL = 80
CHANNEL_TREATED, CHANNEL_LEGAL, CHANNEL_BUDGET = -1, -2, -3
"""Other codes are numbers of static planes."""
MODE_EPISODE, MODE_SET, MODE_FRESH = range(3)
REWARD_DELTA, REWARD_RELATIVE, REWARD_TERMINAL = range(3)
SPENT_ALL, NONE_LEGAL = 1, 2
"""Causes of an episode's end."""
STREAM_LANDSCAPE, STREAM_FIRES = np.uint64(0xA5A5A5A5A5A5A5A5), np.uint64(0x3C3C3C3C3C3C3C3C)
_U27, _U30, _U31, _U32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@inlined
def mixed(word):
    """A word with its bits well stirred: the output function of SplitMix64."""
    z = (word ^ (word >> _U30)) * MIX_1
    z = (z ^ (z >> _U27)) * MIX_2
    return z ^ (z >> _U31)


@helper
def ignited(pool, land, rules, number):
    """The cell that a number in 0..2**32-1 lands on, by ignition weights."""
    f64 = pool.view(np.float64)
    first = rules[P_IGNITION] + land * rules[R_CELLS]
    low, high = 0, rules[R_CELLS] - 1
    point = np.float64(number) * (1.0 / 4294967296.0) * f64[first + high]
    while low < high:
        middle = (low + high) >> 1
        if f64[first + middle] > point:
            high = middle
        else:
            low = middle + 1
    return low


@helper
def choose_fires(rules, pool, words, i32, base):
    """Draw the sample of fires, or take the landscape's own."""
    land = np.int64(i32[base * 2 + LAND])
    at = (base + rules[R_ROW_FIRES]) * 2
    for n in range(rules[R_FIRES]):
        if rules[R_MODE] == MODE_SET:
            from_ = rules[P_FIXED] + 2 * (land * rules[R_FIRES] + n)
            i32[at + 2 * n] = pool.view(np.int32)[from_]
            i32[at + 2 * n + 1] = pool.view(np.int32)[from_ + 1]
        else:
            number = draw(words, base + FIRE_RNG, 4294967296)
            i32[at + 2 * n] = ignited(pool, land, rules, number)
            i32[at + 2 * n + 1] = draw(words, base + FIRE_RNG, rules[R_WEATHER])


@helper
def burn(rules, pool, words, f64, i32, u32, f32, base, lane, n):
    """Burn fire n as the breaks stand now; keeps its loss and what it burned."""
    cells, bits = rules[R_CELLS], rules[R_BITS]
    width, reach, count = rules[R_WIDTH], rules[R_REACH], rules[R_DIRECTIONS]
    fire = (base + rules[R_ROW_FIRES]) * 2 + 2 * n
    land, start, weather = np.int64(i32[base * 2 + LAND]), np.int64(i32[fire]), i32[fire + 1]
    burned = base + rules[R_ROW_BURNED] + n * bits
    for j in range(bits):
        words[burned + j] = ZERO
    loss = base + rules[R_ROW_LOSSES] + n
    f64[loss] = 0.0
    if has_bit(words, base + rules[R_ROW_CLOSED], start):
        return
    scenario = land * rules[R_WEATHER] + weather
    pool32 = pool.view(np.float32)
    scratch = rules[R_SCRATCH] + lane * rules[R_SCRATCH_STRIDE]
    found = spread(
        i32,
        f32,
        scratch,
        cells,
        width,
        reach,
        pool32,
        rules[P_MINUTES] + scenario * cells * count,
        pool,
        rules[P_OFFSETS],
        count,
        u32,
        (base + rules[R_ROW_GATES]) * 2,
        start,
        pool32[rules[P_LIMITS] + scenario],
    )
    first = burned_at(scratch, cells, width, reach)
    value, values = rules[P_VALUE] + land * cells, pool.view(np.float64)
    total = 0.0
    for m in range(found):
        cell = np.int64(i32[first + m])
        total += values[value + cell]
        set_bit(words, burned, cell)
    f64[loss] = total
    forget(i32, f32, scratch, cells, width, reach, found)


@helper
def mean_loss(rules, pool, f64, i32, base):
    """Mean loss of the sample, as a share of the landscape's value."""
    total = 0.0
    for n in range(rules[R_FIRES]):
        total += f64[base + rules[R_ROW_LOSSES] + n]
    return total / (rules[R_FIRES] * pool.view(np.float64)[rules[P_TOTAL] + i32[base * 2 + LAND]])


@helper
def burn_all(rules, pool, words, f64, i32, u32, f32, base, lane):
    """Burn the whole sample and return its mean loss."""
    for n in range(rules[R_FIRES]):
        burn(rules, pool, words, f64, i32, u32, f32, base, lane, n)
    return mean_loss(rules, pool, f64, i32, base)


@helper
def restart(rules, pool, words, f64, i32, u32, f32, i16, base, lane):
    """Begin a new episode: its landscape and fires depend on the env's seed and its number."""
    state = words[base + RNG] + GOLDEN
    words[base + RNG] = state
    key = mixed(state)
    words[base + KEY] = key
    half = base * 2
    land = np.int64(i32[half + PINNED]) - 1
    if land < 0:
        number = mixed(key ^ STREAM_LANDSCAPE) >> _U32
        land = np.int64((number * np.uint64(rules[R_LANDSCAPES])) >> _U32)
    i32[half + LAND] = land
    words[base + FIRE_RNG] = mixed(key ^ STREAM_FIRES)
    for at in (STEPS, SPENT, TREATED, DROPPED):
        i32[half + at] = 0
    i32[half + BUDGET] = min(rules[R_BUDGET], pool[rules[P_COUNT] + land])
    f64[base + RETURN] = 0.0
    i16[base * 4 + ENDED] = 0
    bits, sets = rules[R_BITS], pool.view(np.uint64)
    for j in range(bits):
        words[base + rules[R_ROW_LEGAL] + j] = sets[rules[P_LEGAL] + land * bits + j]
        words[base + rules[R_ROW_CLOSED] + j] = sets[rules[P_CLOSED] + land * bits + j]
    gates = half + rules[R_ROW_GATES] * 2
    for cell in range(rules[R_CELLS]):
        u32[gates + cell] = np.uint32(0xFFFFFFFF)
    choose_fires(rules, pool, words, i32, base)
    f64[base + LOSS_FIRST] = burn_all(rules, pool, words, f64, i32, u32, f32, base, lane)
    f64[base + LOSS] = f64[base + LOSS_FIRST]


@helper
def treat(rules, words, i32, u32, base, cell):
    """Treat a cell; returns whether that was legal."""
    if cell < 0 or cell >= rules[R_CELLS] or not has_bit(words, base + rules[R_ROW_LEGAL], cell):
        return False
    clear_bit(words, base + rules[R_ROW_LEGAL], cell)
    set_bit(words, base + rules[R_ROW_CLOSED], cell)
    i32[base * 2 + TREATED] += 1
    close_gates(
        u32,
        (base + rules[R_ROW_GATES]) * 2,
        words,
        base + rules[R_ROW_CLOSED],
        cell,
        rules[R_HEIGHT],
        rules[R_WIDTH],
        rules[R_STENCIL:],
        rules[R_CUTS],
        rules[R_PINCHES],
    )
    return True


@helper
def burn_changed(rules, pool, words, f64, i32, u32, f32, base, lane, actions, first, slots):
    """Burn the fires anew that this step's cells can change; returns the sample's mean loss."""
    for n in range(rules[R_FIRES]):
        burned = base + rules[R_ROW_BURNED] + n * rules[R_BITS]
        for slot in range(slots):
            cell = actions[first + slot]
            if cell < 0 or cell >= rules[R_CELLS]:
                continue
            if can_change(
                words,
                burned,
                cell,
                rules[R_HEIGHT],
                rules[R_WIDTH],
                pool,
                rules[P_PAIRS],
                rules[R_PAIRS],
            ):
                burn(rules, pool, words, f64, i32, u32, f32, base, lane, n)
                break
    return mean_loss(rules, pool, f64, i32, base)
