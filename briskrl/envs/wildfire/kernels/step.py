"""The wildfire environment, compiled: steps, rewards and the ends of episodes."""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, kernel
from briskrl.envs.kernels.episode_log import REC_EXTRA, record, tick
from briskrl.envs.kernels.step_loop import at_address, share_of
from briskrl.envs.wildfire.kernels.episode import (
    BUDGET,
    DROPPED,
    ENDED,
    KEY,
    LAND,
    LOSS,
    LOSS_FIRST,
    MODE_FRESH,
    NONE_LEGAL,
    P_COUNT,
    R_BITS,
    R_MODE,
    R_PENALTY,
    R_PER_STEP,
    R_POOL,
    R_REWARD,
    R_ROW,
    R_ROW_FINAL,
    R_ROW_LEGAL,
    RETURN,
    REWARD_RELATIVE,
    REWARD_TERMINAL,
    SPENT,
    SPENT_ALL,
    STEPS,
    TREATED,
    burn_all,
    burn_changed,
    choose_fires,
    restart,
    treat,
)
from briskrl.envs.wildfire.kernels.observation import observe

SAME_STEP, NEXT_STEP, DISABLED, RESET, LOOK = range(5)
_SIGNIFICANT = np.uint64(11)
"""Bits of a key that a float64 cannot hold."""


@helper
def place(rules, pool, words, f64, i32, u32, f32, i8, base, env, lane, actions, first):
    """Do one step of an episode; returns its reward and why the episode ends, or 0."""
    half = base * 2
    slots = min(rules[R_PER_STEP], np.int64(i32[half + BUDGET] - i32[half + SPENT]))
    if rules[R_MODE] == MODE_FRESH and rules[R_REWARD] != REWARD_TERMINAL:
        choose_fires(rules, pool, words, i32, base)
        f64[base + LOSS] = burn_all(rules, pool, words, f64, i32, u32, f32, i8, base, env, lane)
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
            after = burn_all(rules, pool, words, f64, i32, u32, f32, i8, base, env, lane)
            f64[base + LOSS] = after
            value -= 100.0 * after
        return value, cause
    after = burn_changed(
        rules, pool, words, f64, i32, u32, f32, i8, base, env, lane, actions, first, slots
    )
    f64[base + LOSS] = after
    gain = 100.0 * (before - after)
    if rules[R_REWARD] == REWARD_RELATIVE:
        untreated = f64[base + LOSS_FIRST]
        gain = gain / untreated if untreated > 0.0 else 0.0
    return value + gain, cause


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
    f32, i16, i8 = words.view(np.float32), words.view(np.int16), words.view(np.int8)
    pool = at_address(rules, rules[R_POOL])
    shown, final = obs.reshape(obs.size), final_obs.reshape(final_obs.size)
    chosen, size = actions.reshape(actions.size), obs.size // reward.size
    if phase < RESET:
        tick(log, lane)
    for i in range(low, high):
        base = i * rules[R_ROW]
        cause = 0
        if phase == LOOK:
            if rules[R_REWARD] != REWARD_TERMINAL:
                # How fires spread is no part of the state.
                burn_all(rules, pool, words, f64, i32, u32, f32, i8, base, i, lane)
        else:
            if i16[base * 4 + ENDED] != 0:
                if phase == DISABLED:
                    continue
                restart(rules, pool, words, f64, i32, u32, f32, i16, i8, base, i, lane)
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
                    i8,
                    base,
                    i,
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
                restart(rules, pool, words, f64, i32, u32, f32, i16, i8, base, i, lane)
        observe(rules, pool, words, i32, base, shown, i * size)


share = share_of(step)
