"""Burning the fires of an episode, from the ignition or only where new breaks matter."""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, inline_helper
from briskrl.envs.wildfire.kernels.layout import (
    LAND,
    P_LIMITS,
    P_MINUTES,
    P_OFFSETS,
    P_TOTAL,
    P_VALUE,
    R_CELLS,
    R_CUTS,
    R_DIRECTIONS,
    R_FIRES,
    R_HEIGHT,
    R_KEPT,
    R_KEPT_ENV,
    R_KEPT_FIRE,
    R_PINCHES,
    R_REACH,
    R_ROW_CLOSED,
    R_ROW_FIRES,
    R_ROW_GATES,
    R_ROW_LOSSES,
    R_SCRATCH,
    R_SCRATCH_STRIDE,
    R_STENCIL,
    R_WEATHER,
    R_WIDTH,
)
from briskrl.envs.wildfire.kernels.spread import (
    BUCKETS,
    IGNITION,
    NONE,
    SCRATCH_FILL,
    Edges,
    FireMemory,
    burned_at,
    clear_scratch,
    enqueue,
    fill_of,
    flood,
    has_bit,
    ignite,
    scale_of,
)


@inline_helper
def kept_at(params, env, n):
    """First place of the memory of a fire: arrival times, then incoming directions in bytes."""
    return params[R_KEPT] + env * params[R_KEPT_ENV] + n * params[R_KEPT_FIRE]


@inline_helper
def scenario_of(params, i32, base, n):
    """Index of a fire's landscape and weather among all pairs in the pool."""
    weather = i32[(base + params[R_ROW_FIRES]) * 2 + 2 * n + 1]
    return np.int64(i32[base * 2 + LAND]) * params[R_WEATHER] + weather


@helper
def burn(m, base, env, lane, n):
    """Burn fire n with the present breaks; keeps its loss and how it spread."""
    params, pool, f64, i32, f32, i8 = m.params, m.pool, m.f64, m.i32, m.f32, m.i8
    cells, count = params[R_CELLS], params[R_DIRECTIONS]
    width, reach = params[R_WIDTH], params[R_REACH]
    edge = reach * width + reach
    arrivals = kept_at(params, env, n) + edge
    ways = (arrivals + cells + edge) * 4 + edge
    scenario, pool32 = scenario_of(params, i32, base, n), pool.view(np.float32)
    limit = pool32[params[P_LIMITS] + scenario]
    fill = fill_of(limit)
    for cell in range(cells):
        f32[arrivals + cell] = fill
    for cell in range(-edge, cells + edge):
        i8[ways + cell] = NONE
    loss = base + params[R_ROW_LOSSES] + n
    f64[loss] = 0.0
    start = np.int64(i32[(base + params[R_ROW_FIRES]) * 2 + 2 * n])
    if has_bit(m.state, base + params[R_ROW_CLOSED], start):
        return
    scratch = params[R_SCRATCH] + lane * params[R_SCRATCH_STRIDE]
    if f32[scratch + SCRATCH_FILL] == 0.0:
        clear_scratch(i32, f32, scratch, cells, width, reach, fill)
    lists = burned_at(scratch, cells, width, reach)
    gate = (base + params[R_ROW_GATES]) * 2
    minutes = params[P_MINUTES] + scenario * cells * count
    fire = FireMemory(i32, f32, i8, lists, arrivals, ways, cells)
    edges = Edges(pool32, minutes, pool, params[P_OFFSETS], count, m.u32, gate)
    found = ignite(fire, edges, start, limit)
    value, values = params[P_VALUE] + i32[base * 2 + LAND] * cells, pool.view(np.float64)
    total = 0.0
    for j in range(found):
        total += values[value + i32[lists + j]]
    f64[loss] = total


@inline_helper
def is_open(u32, gate, cell, k):
    """Whether breaks leave direction k of a cell open."""
    return (u32[gate + cell] >> np.uint32(k)) & np.uint32(1) != np.uint32(0)


@helper
def cut_off(m, base, cell, arrivals, ways, fill, gone, lost):
    """Unburn the cells that a fire reached by moves which a break at `cell` has stopped.

    They are appended to the list `gone`, which has `lost` members; returns its new length.
    """
    params, i32, f32, i8 = m.params, m.i32, m.f32, m.i8
    width, height = params[R_WIDTH], params[R_HEIGHT]
    gate = (base + params[R_ROW_GATES]) * 2
    if i8[ways + cell] == IGNITION and has_bit(m.state, base + params[R_ROW_CLOSED], cell):
        lost = take_off(i32, f32, i8, cell, arrivals, ways, fill, gone, lost)
    row, col = cell // width, cell % width
    cuts = params[R_CUTS]
    for n in range(cuts + params[R_PINCHES]):
        p = R_STENCIL + (3 * n if n < cuts else 3 * cuts + 5 * (n - cuts))
        k = params[p + 2] if n < cuts else params[p + 4]
        r, c = row + params[p], col + params[p + 1]
        if r < 0 or r >= height or c < 0 or c >= width:
            continue
        source = r * width + c
        to = source + m.pool[params[P_OFFSETS] + k]
        if i8[ways + to] == k and not is_open(m.u32, gate, source, k):
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
def burn_again(m, base, env, lane, n, actions, first, slots):
    """Update fire n after this step's breaks: cells that they cut off burn again from outside.

    All other burned cells keep their arrival time, because a break only removes paths. The result
    is that of burning from the ignition, to the bit.
    """
    params, pool, f64, i32, f32, i8 = m.params, m.pool, m.f64, m.i32, m.f32, m.i8
    cells, count = params[R_CELLS], params[R_DIRECTIONS]
    width, reach = params[R_WIDTH], params[R_REACH]
    edge = reach * width + reach
    arrivals = kept_at(params, env, n) + edge
    ways = (arrivals + cells + edge) * 4 + edge
    scenario, pool32 = scenario_of(params, i32, base, n), pool.view(np.float32)
    limit = pool32[params[P_LIMITS] + scenario]
    fill, scale = fill_of(limit), scale_of(limit)
    scratch = params[R_SCRATCH] + lane * params[R_SCRATCH_STRIDE]
    lists = burned_at(scratch, cells, width, reach)
    gone, lost = lists + 2 * cells, 0
    for slot in range(slots):
        cell = actions[first + slot]
        if cell >= 0 and cell < cells:
            lost = cut_off(m, base, cell, arrivals, ways, fill, gone, lost)
    if lost == 0:
        return
    if f32[scratch + SCRATCH_FILL] == 0.0:
        clear_scratch(i32, f32, scratch, cells, width, reach, fill)
    turn = params[P_OFFSETS]
    done = 0
    while done < lost:
        cell = np.int64(i32[gone + done])
        done += 1
        for k in range(count):
            to = cell + pool[turn + k]
            if i8[ways + to] == k:
                lost = take_off(i32, f32, i8, to, arrivals, ways, fill, gone, lost)
    minutes, gate = params[P_MINUTES] + scenario * cells * count, (base + params[R_ROW_GATES]) * 2
    value, values = params[P_VALUE] + i32[base * 2 + LAND] * cells, pool.view(np.float64)
    total = f64[base + params[R_ROW_LOSSES] + n]
    found, bucket = 0, BUCKETS
    for j in range(lost):
        cell = np.int64(i32[gone + j])
        total -= values[value + cell]
        best, via = fill, NONE
        for k in range(count):
            source = cell - pool[turn + k]
            if source < 0 or source >= cells or f32[arrivals + source] == fill:
                continue
            new = f32[arrivals + source] + pool32[minutes + source * count + k]
            if new < best and is_open(m.u32, gate, source, k):
                best, via = new, k
        if via != NONE:
            f32[arrivals + cell] = best
            i8[ways + cell] = via
            place = np.int64(best * scale)
            enqueue(i32, lists - 2 * cells, lists - cells, lists + 3 * cells, cell, place)
            bucket = min(bucket, place)
            i32[lists + found] = cell
            found += 1
    fire = FireMemory(i32, f32, i8, lists, arrivals, ways, cells)
    edges = Edges(pool32, minutes, pool, turn, count, m.u32, gate)
    found = flood(fire, edges, limit, found, found, bucket)
    for j in range(found):
        total += values[value + i32[lists + j]]
    f64[base + params[R_ROW_LOSSES] + n] = total


@helper
def mean_loss(m, base):
    """Mean loss of the sample of fires, as a fraction of the landscape's value."""
    params, total = m.params, 0.0
    for n in range(params[R_FIRES]):
        total += m.f64[base + params[R_ROW_LOSSES] + n]
    value = m.pool.view(np.float64)[params[P_TOTAL] + m.i32[base * 2 + LAND]]
    return total / (params[R_FIRES] * value)


@helper
def burn_all(m, base, env, lane):
    """Burn the whole sample of fires and return its mean loss."""
    for n in range(m.params[R_FIRES]):
        burn(m, base, env, lane, n)
    return mean_loss(m, base)


@helper
def burn_changed(m, base, env, lane, actions, first, slots):
    """Update all fires after this step's breaks and return the mean loss of the sample."""
    for n in range(m.params[R_FIRES]):
        burn_again(m, base, env, lane, n, actions, first, slots)
    return mean_loss(m, base)
