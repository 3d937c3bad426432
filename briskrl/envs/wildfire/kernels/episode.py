"""One episode, compiled: drawing and burning its fires, treating cells, beginning anew.

An episode is a row of words: scalars, then fires (cell and weather), their losses, bitmaps of legal
and closed cells, and the open directions of every cell. How each fire spread is kept elsewhere; it
follows from the row. Everything about landscapes is in the pool, which `rules` holds the address of
and which is only read.
"""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, inline_helper
from briskrl.envs.kernels.rng import GOLDEN, MIX_1, MIX_2, draw
from briskrl.envs.wildfire.kernels.spread import (
    BUCKETS,
    IGNITION,
    NONE,
    SCRATCH_FILL,
    burned_at,
    clear_bit,
    clear_scratch,
    close_gates,
    enqueue,
    fill_of,
    flood,
    has_bit,
    ignite,
    scale_of,
    set_bit,
)

RNG, RETURN, LOSS_FIRST, LOSS, FIRE_RNG, KEY = range(6)
"""Words of a row; losses are shares of all value."""
LAND, STEPS, SPENT, BUDGET, TREATED, DROPPED, PINNED = range(12, 19)
"""Halves of words; PINNED is a landscape plus one, or 0 for any."""
EPISODE = 22
"""A half: how many episodes have begun since the env was seeded."""
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
    R_ROW_LEGAL,
    R_ROW_FINAL,
    R_ROW_CLOSED,
    R_ROW_GATES,
    R_SCRATCH,
    R_SCRATCH_STRIDE,
    R_KEPT,
    R_KEPT_ENV,
    R_KEPT_FIRE,
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
) = range(42)
"""Places in the rules. R_ROW_* hold places in a row, in words; P_* places in the pool, in elements
of their own type."""
R_CHANNEL = 48
"""Code of the first channel; see CHANNEL_*. The stencil begins at R_STENCIL."""
R_STENCIL = 80
CHANNEL_TREATED, CHANNEL_LEGAL, CHANNEL_BUDGET = -1, -2, -3
"""Other codes are numbers of static planes."""
MODE_EPISODE, MODE_SET, MODE_FRESH, MODE_ROUND = range(4)
REWARD_DELTA, REWARD_RELATIVE, REWARD_TERMINAL = range(3)
SPENT_ALL, NONE_LEGAL = 1, 2
"""Causes of an episode's end."""
STREAM_LANDSCAPE, STREAM_FIRES = np.uint64(0xA5A5A5A5A5A5A5A5), np.uint64(0x3C3C3C3C3C3C3C3C)
_U27, _U30, _U31, _U32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@inline_helper
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


@inline_helper
def kept_at(rules, env, n):
    """Word of what is kept of a fire: arrival times, then the directions it came in, in bytes."""
    return rules[R_KEPT] + env * rules[R_KEPT_ENV] + n * rules[R_KEPT_FIRE]


@inline_helper
def scenario_of(rules, i32, base, n):
    """Number of a fire's landscape and weather among all in the pool."""
    weather = i32[(base + rules[R_ROW_FIRES]) * 2 + 2 * n + 1]
    return np.int64(i32[base * 2 + LAND]) * rules[R_WEATHER] + weather


@helper
def burn(rules, pool, words, f64, i32, u32, f32, i8, base, env, lane, n):
    """Burn fire n as the breaks stand now; keeps its loss and how it spread."""
    cells, count = rules[R_CELLS], rules[R_DIRECTIONS]
    width, reach = rules[R_WIDTH], rules[R_REACH]
    edge = reach * width + reach
    arrivals = kept_at(rules, env, n) + edge
    ways = (arrivals + cells + edge) * 4 + edge
    scenario, pool32 = scenario_of(rules, i32, base, n), pool.view(np.float32)
    limit = pool32[rules[P_LIMITS] + scenario]
    fill = fill_of(limit)
    for cell in range(cells):
        f32[arrivals + cell] = fill
    for cell in range(-edge, cells + edge):
        i8[ways + cell] = NONE
    loss = base + rules[R_ROW_LOSSES] + n
    f64[loss] = 0.0
    start = np.int64(i32[(base + rules[R_ROW_FIRES]) * 2 + 2 * n])
    if has_bit(words, base + rules[R_ROW_CLOSED], start):
        return
    scratch = rules[R_SCRATCH] + lane * rules[R_SCRATCH_STRIDE]
    if f32[scratch + SCRATCH_FILL] == 0.0:
        clear_scratch(i32, f32, scratch, cells, width, reach, fill)
    lists = burned_at(scratch, cells, width, reach)
    found = ignite(
        i32,
        f32,
        i8,
        lists,
        cells,
        arrivals,
        ways,
        pool32,
        rules[P_MINUTES] + scenario * cells * count,
        pool,
        rules[P_OFFSETS],
        count,
        u32,
        (base + rules[R_ROW_GATES]) * 2,
        start,
        limit,
    )
    value, values = rules[P_VALUE] + i32[base * 2 + LAND] * cells, pool.view(np.float64)
    total = 0.0
    for m in range(found):
        total += values[value + i32[lists + m]]
    f64[loss] = total


@inline_helper
def is_open(u32, gate, cell, k):
    """Whether breaks leave direction k of a cell open."""
    return (u32[gate + cell] >> np.uint32(k)) & np.uint32(1) != np.uint32(0)


@helper
def cut_off(rules, pool, words, i32, u32, f32, i8, base, cell, arrivals, ways, fill, gone, lost):
    """Take the cells off a fire that it reached by moves which a break at `cell` has stopped.

    They are appended to the list `gone`, which has `lost` members; returns how many it has then.
    """
    width, height = rules[R_WIDTH], rules[R_HEIGHT]
    gate = (base + rules[R_ROW_GATES]) * 2
    if i8[ways + cell] == IGNITION and has_bit(words, base + rules[R_ROW_CLOSED], cell):
        lost = take_off(i32, f32, i8, cell, arrivals, ways, fill, gone, lost)
    row, col = cell // width, cell % width
    cuts = rules[R_CUTS]
    for n in range(cuts + rules[R_PINCHES]):
        p = R_STENCIL + (3 * n if n < cuts else 3 * cuts + 5 * (n - cuts))
        k = rules[p + 2] if n < cuts else rules[p + 4]
        r, c = row + rules[p], col + rules[p + 1]
        if r < 0 or r >= height or c < 0 or c >= width:
            continue
        source = r * width + c
        to = source + pool[rules[P_OFFSETS] + k]
        if i8[ways + to] == k and not is_open(u32, gate, source, k):
            lost = take_off(i32, f32, i8, to, arrivals, ways, fill, gone, lost)
    return lost


@inline_helper
def take_off(i32, f32, i8, cell, arrivals, ways, fill, gone, lost):
    """Unburn a cell and append it to the list `gone`."""
    f32[arrivals + cell] = fill
    i8[ways + cell] = NONE
    i32[gone + lost] = cell
    return lost + 1


@helper
def burn_again(
    rules, pool, words, f64, i32, u32, f32, i8, base, env, lane, n, actions, first, slots
):
    """Mend fire n after this step's breaks: what they cut off burns again from its surroundings.

    Whatever else burned keeps its time, because a break can only take paths away; so the result
    is that of burning from the ignition, to the bit.
    """
    cells, count = rules[R_CELLS], rules[R_DIRECTIONS]
    width, reach = rules[R_WIDTH], rules[R_REACH]
    edge = reach * width + reach
    arrivals = kept_at(rules, env, n) + edge
    ways = (arrivals + cells + edge) * 4 + edge
    scenario, pool32 = scenario_of(rules, i32, base, n), pool.view(np.float32)
    limit = pool32[rules[P_LIMITS] + scenario]
    fill, scale = fill_of(limit), scale_of(limit)
    scratch = rules[R_SCRATCH] + lane * rules[R_SCRATCH_STRIDE]
    lists = burned_at(scratch, cells, width, reach)
    gone, lost = lists + 2 * cells, 0
    for slot in range(slots):
        cell = actions[first + slot]
        if cell >= 0 and cell < cells:
            lost = cut_off(
                rules, pool, words, i32, u32, f32, i8, base, cell, arrivals, ways, fill, gone, lost
            )
    if lost == 0:
        return
    if f32[scratch + SCRATCH_FILL] == 0.0:
        clear_scratch(i32, f32, scratch, cells, width, reach, fill)
    turn = rules[P_OFFSETS]
    done = 0
    while done < lost:
        cell = np.int64(i32[gone + done])
        done += 1
        for k in range(count):
            to = cell + pool[turn + k]
            if i8[ways + to] == k:
                lost = take_off(i32, f32, i8, to, arrivals, ways, fill, gone, lost)
    minutes, gate = rules[P_MINUTES] + scenario * cells * count, (base + rules[R_ROW_GATES]) * 2
    value, values = rules[P_VALUE] + i32[base * 2 + LAND] * cells, pool.view(np.float64)
    total = f64[base + rules[R_ROW_LOSSES] + n]
    found, bucket = 0, BUCKETS
    for m in range(lost):
        cell = np.int64(i32[gone + m])
        total -= values[value + cell]
        best, via = fill, NONE
        for k in range(count):
            source = cell - pool[turn + k]
            if source < 0 or source >= cells or f32[arrivals + source] == fill:
                continue
            new = f32[arrivals + source] + pool32[minutes + source * count + k]
            if new < best and is_open(u32, gate, source, k):
                best, via = new, k
        if via != NONE:
            f32[arrivals + cell] = best
            i8[ways + cell] = via
            place = np.int64(best * scale)
            enqueue(i32, lists - 2 * cells, lists - cells, lists + 3 * cells, cell, place)
            bucket = min(bucket, place)
            i32[lists + found] = cell
            found += 1
    found = flood(
        i32,
        f32,
        i8,
        lists,
        cells,
        arrivals,
        ways,
        pool32,
        minutes,
        pool,
        turn,
        count,
        u32,
        gate,
        limit,
        found,
        found,
        bucket,
    )
    for m in range(found):
        total += values[value + i32[lists + m]]
    f64[base + rules[R_ROW_LOSSES] + n] = total


@helper
def mean_loss(rules, pool, f64, i32, base):
    """Mean loss of the sample, as a share of the landscape's value."""
    total = 0.0
    for n in range(rules[R_FIRES]):
        total += f64[base + rules[R_ROW_LOSSES] + n]
    return total / (rules[R_FIRES] * pool.view(np.float64)[rules[P_TOTAL] + i32[base * 2 + LAND]])


@helper
def burn_all(rules, pool, words, f64, i32, u32, f32, i8, base, env, lane):
    """Burn the whole sample and return its mean loss."""
    for n in range(rules[R_FIRES]):
        burn(rules, pool, words, f64, i32, u32, f32, i8, base, env, lane, n)
    return mean_loss(rules, pool, f64, i32, base)


@helper
def restart(rules, pool, words, f64, i32, u32, f32, i16, i8, base, env, lane):
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
    if rules[R_MODE] == MODE_ROUND:
        # The same for all envs, whatever their seeds.
        key = mixed((np.uint64(i32[half + EPISODE]) << _U32) ^ np.uint64(land))
    words[base + FIRE_RNG] = mixed(key ^ STREAM_FIRES)
    i32[half + EPISODE] += 1
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
    f64[base + LOSS_FIRST] = burn_all(rules, pool, words, f64, i32, u32, f32, i8, base, env, lane)
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
def burn_changed(
    rules, pool, words, f64, i32, u32, f32, i8, base, env, lane, actions, first, slots
):
    """Mend all fires after this step's breaks; returns the sample's mean loss."""
    for n in range(rules[R_FIRES]):
        burn_again(
            rules,
            pool,
            words,
            f64,
            i32,
            u32,
            f32,
            i8,
            base,
            env,
            lane,
            n,
            actions,
            first,
            slots,
        )
    return mean_loss(rules, pool, f64, i32, base)
