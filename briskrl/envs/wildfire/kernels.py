"""The wildfire environment, compiled: episodes, treatments, rewards and observations.

An episode is a row of words: scalars, then fires (cell and weather), their losses, bitmaps of what
each burned, bitmaps of legal and closed cells, and the open directions of every cell. Everything
about landscapes is in the pool, which `rules` holds the address of and which is only read.
"""

from __future__ import annotations

import numpy as np

from briskrl.envs.kernels import (
    GOLDEN,
    MIX_1,
    MIX_2,
    REC_EXTRA,
    at_address,
    draw,
    record,
    share_of,
    tick,
)
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
from briskrl.jit import helper, inlined, kernel

SAME_STEP, NEXT_STEP, DISABLED, RESET, LOOK = range(5)

RNG, RETURN, LOSS_FIRST, LOSS, FIRE_RNG, KEY = range(6)
"""Words of a row; losses are shares of all value."""
LAND, STEPS, SPENT, BUDGET, TREATED, DROPPED, PINNED, ILLEGAL = range(12, 20)
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
"""Code of the first channel; see CHANNEL_*. The stencil follows R_STENCIL."""
R_STENCIL = 80
CHANNEL_TREATED, CHANNEL_LEGAL, CHANNEL_BUDGET = -1, -2, -3
"""Other codes are numbers of static planes."""
MODE_EPISODE, MODE_SET, MODE_FRESH = range(3)
REWARD_DELTA, REWARD_RELATIVE, REWARD_TERMINAL = range(3)
SPENT_ALL, NONE_LEGAL = 1, 2
"""Causes of an episode's end."""
STREAM_LANDSCAPE, STREAM_FIRES = np.uint64(0xA5A5A5A5A5A5A5A5), np.uint64(0x3C3C3C3C3C3C3C3C)
_U27, _U30, _U31, _U32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_SIGNIFICANT = np.uint64(11)
"""Bits of a key that a float64 cannot hold."""


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
    for at in (STEPS, SPENT, TREATED, DROPPED, ILLEGAL):
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


@helper
def place(rules, pool, words, f64, i32, u32, f32, base, lane, actions, first):
    """Do one step of an episode; returns its reward and why the episode ends, or 0."""
    half = base * 2
    slots = min(rules[R_PER_STEP], np.int64(i32[half + BUDGET] - i32[half + SPENT]))
    if rules[R_MODE] == MODE_FRESH and rules[R_REWARD] != REWARD_TERMINAL:
        choose_fires(rules, pool, words, i32, base)
        f64[base + LOSS] = burn_all(rules, pool, words, f64, i32, u32, f32, base, lane)
    wrong = 0
    for slot in range(slots):
        cell = actions[first + slot]
        # Several cells at a time may be padded with -1.
        padding = cell == -1 and rules[R_PER_STEP] > 1
        if not treat(rules, words, i32, u32, base, cell) and not padding:
            wrong += 1
    i32[half + STEPS] += 1
    i32[half + SPENT] += slots
    i32[half + DROPPED] += wrong
    i32[half + ILLEGAL] = wrong
    cause = 0
    if i32[half + SPENT] >= i32[half + BUDGET]:
        cause = SPENT_ALL
    elif pool[rules[P_COUNT] + i32[half + LAND]] == i32[half + TREATED]:
        cause = NONE_LEGAL
    value = rules.view(np.float64)[R_PENALTY] * wrong
    before = f64[base + LOSS]
    if rules[R_REWARD] == REWARD_TERMINAL:
        if cause != 0:
            if rules[R_MODE] == MODE_FRESH:
                choose_fires(rules, pool, words, i32, base)
            after = burn_all(rules, pool, words, f64, i32, u32, f32, base, lane)
            f64[base + LOSS] = after
            value -= 100.0 * after
        return value, cause
    after = burn_changed(rules, pool, words, f64, i32, u32, f32, base, lane, actions, first, slots)
    f64[base + LOSS] = after
    gain = 100.0 * (before - after)
    if rules[R_REWARD] == REWARD_RELATIVE:
        untreated = f64[base + LOSS_FIRST]
        gain = gain / untreated if untreated > 0.0 else 0.0
    return value + gain, cause


@helper
def show(rules, pool, treated, at, land, budget, shown, to):
    """Write the planes (C, H, W) of a landscape with these treated cells, from `to` on.

    Args:
        rules: Settings.
        pool: Landscapes.
        treated: Words with one bit per cell, from `at` on; bits of cells that cannot burn may be
            set or not.
        at: See treated.
        land: The landscape.
        budget: Share of the budget that is left.
        shown: Where to write.
        to: See shown.
    """
    cells = rules[R_CELLS]
    planes, pool32 = rules[P_PLANES] + land * rules[R_STATIC] * cells, pool.view(np.float32)
    sets = pool.view(np.uint64)
    shut, open_ = rules[P_CLOSED] + land * rules[R_BITS], rules[P_LEGAL] + land * rules[R_BITS]
    for c in range(rules[R_CHANNELS]):
        code, first = rules[R_CHANNEL + c], to + c * cells
        if code >= 0:
            from_ = planes + code * cells
            for cell in range(cells):
                shown[first + cell] = pool32[from_ + cell]
        elif code == CHANNEL_BUDGET:
            for cell in range(cells):
                shown[first + cell] = budget
        elif code == CHANNEL_LEGAL:
            for cell in range(cells):
                legal = has_bit(sets, open_, cell) and not has_bit(treated, at, cell)
                shown[first + cell] = np.float32(1.0) if legal else np.float32(0.0)
        else:
            for cell in range(cells):
                done = has_bit(treated, at, cell) and not has_bit(sets, shut, cell)
                shown[first + cell] = np.float32(1.0) if done else np.float32(0.0)


@inlined
def budget_left(i32, base):
    """Share of the budget that is left."""
    left = i32[base * 2 + BUDGET] - i32[base * 2 + SPENT]
    return np.float32(left / max(1, i32[base * 2 + BUDGET]))


@helper
def observe(rules, pool, words, i32, base, shown, at):
    """Write the planes of one episode, (C, H, W) from `at` on."""
    land, closed = np.int64(i32[base * 2 + LAND]), base + rules[R_ROW_CLOSED]
    show(rules, pool, words, closed, land, budget_left(i32, base), shown, at)


@helper
def finish(rules, words, f64, i32, i16, base, log, lane, env, cause):
    """Record an ended episode and what its last moment allows."""
    half = base * 2
    i16[base * 4 + ENDED] = 1
    for j in range(rules[R_BITS]):
        words[base + rules[R_ROW_FINAL] + j] = words[base + rules[R_ROW_LEGAL] + j]
    untreated, loss = f64[base + LOSS_FIRST], f64[base + LOSS]
    score = 100.0 * (1.0 - loss / untreated) if untreated > 0.0 else 0.0
    row = record(log, lane, env, i32[half + STEPS], f64[base + RETURN], score, loss == 0.0, cause)
    log[row, REC_EXTRA] = loss
    log[row, REC_EXTRA + 1] = untreated
    log[row, REC_EXTRA + 2] = i32[half + TREATED]
    log[row, REC_EXTRA + 3] = i32[half + LAND]
    log[row, REC_EXTRA + 4] = i32[half + DROPPED]
    log[row, REC_EXTRA + 5] = np.float64(words[base + KEY] >> _SIGNIFICANT)


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
    """Advance the episodes low..high-1 as `phase` says and write what they show."""
    f64, i32, u32 = words.view(np.float64), words.view(np.int32), words.view(np.uint32)
    f32, i16 = words.view(np.float32), words.view(np.int16)
    pool = at_address(rules, rules[R_POOL])
    shown, final = obs.reshape(obs.size), final_obs.reshape(final_obs.size)
    chosen, size = actions.reshape(actions.size), obs.size // reward.size
    if phase < RESET:
        tick(log, lane)
    for i in range(low, high):
        base = i * rules[R_ROW]
        cause = 0
        if phase != LOOK:
            if i16[base * 4 + ENDED] != 0:
                if phase == DISABLED:
                    continue
                restart(rules, pool, words, f64, i32, u32, f32, i16, base, lane)
                reward[i], terminated[i], truncated[i] = 0.0, False, False
            elif phase == RESET:
                continue
            else:
                value, cause = place(
                    rules,
                    pool,
                    words,
                    f64,
                    i32,
                    u32,
                    f32,
                    base,
                    lane,
                    chosen,
                    i * rules[R_PER_STEP],
                )
                reward[i] = value
                f64[base + RETURN] += np.float64(reward[i])
                terminated[i], truncated[i] = cause != 0, False
        if cause != 0:
            finish(rules, words, f64, i32, i16, base, log, lane, i, cause)
            if phase == SAME_STEP:
                observe(rules, pool, words, i32, base, final, i * size)
                restart(rules, pool, words, f64, i32, u32, f32, i16, base, lane)
        observe(rules, pool, words, i32, base, shown, i * size)


share = share_of(step)


@kernel
def write_masks(rules, words, place_of, mask):
    """Which cells may be treated (N, cells), from the place of a bitmap in each row."""
    for i in range(mask.shape[0]):
        at = i * rules[R_ROW] + rules[place_of]
        for cell in range(mask.shape[1]):
            mask[i, cell] = has_bit(words, at, cell)


@kernel
def write_rows(rules, words, rows):
    """Each episode in short (N, 1 + bits): landscape and budget left in one word, closed cells."""
    i32, halves, reals = words.view(np.int32), rows.view(np.int32), rows.view(np.float32)
    for i in range(rows.shape[0]):
        base = i * rules[R_ROW]
        halves[i, 0] = i32[base * 2 + LAND]
        reals[i, 1] = budget_left(i32, base)
        for j in range(rules[R_BITS]):
            rows[i, 1 + j] = words[base + rules[R_ROW_CLOSED] + j]


@kernel
def read_rows(rules, rows, obs):
    """The planes (B, C, H, W) that rows of `write_rows` stand for."""
    pool = at_address(rules, rules[R_POOL])
    halves, reals = rows.view(np.int32), rows.view(np.float32)
    flat, shown = rows.reshape(rows.size), obs.reshape(obs.size)
    for i in range(rows.shape[0]):
        first = i * rows.shape[1] + 1
        land = np.int64(halves[i, 0])
        show(rules, pool, flat, first, land, reals[i, 1], shown, i * (obs.size // rows.shape[0]))
