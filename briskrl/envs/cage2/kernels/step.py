"""The compiled game: starts, turns, and one loop over all networks of a batch.

Memory and settings are described in `row/kernels.py`; what actions do is in `world/kernels.py`, the
attackers are in `red/kernels.py`, and what blue sees in `views/kernels.py`.
"""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, inline_helper, kernel
from briskrl.envs.cage2.kernels.actions import (
    act_blue,
    act_red,
    full_action,
    listening,
    options_of,
    sockets,
)
from briskrl.envs.cage2.kernels.layout import (
    ACTIVE,
    AGENT,
    ANALYSED,
    ARMED,
    B_LINE,
    BLUE,
    BLUE_OK,
    COST,
    DECOYS,
    DETECTED,
    ENDED,
    EXPLOIT,
    EXPLOITING,
    F_GREEN,
    FIRST_RESTORE,
    FREE,
    GREEN,
    HELD,
    KNOWN_HOST,
    KNOWN_IP,
    KNOWN_SUBNET,
    MEANDER,
    MIXED,
    NUM_HOSTS,
    PICKED,
    R_FINAL,
    R_GREEN,
    R_LENGTH,
    R_MASK,
    R_RED,
    R_REDUCED,
    R_ROW,
    R_TERMINAL,
    R_WEIGHT_BLINE,
    R_WEIGHT_MEANDER,
    R_WEIGHT_TOTAL,
    RESULT,
    RNG,
    RUNNING,
    SERVICE,
    SLEEPER,
    STAGE,
    STEPS,
    T_GREEN,
    TARGET,
    TENTHS,
    UNKNOWN,
    USER,
    USER0,
    host_at,
)
from briskrl.envs.cage2.kernels.observation import begin_view, end_view, notice, observe
from briskrl.envs.cage2.kernels.red_agents import choose
from briskrl.envs.kernels.episode_log import REC_EXTRA, record, tick
from briskrl.envs.kernels.rng import draw
from briskrl.envs.kernels.step_loop import share_of

SAME_STEP, NEXT_STEP, DISABLED, RESET, LOOK = range(5)
TIME_UP = 1
"""The only cause of an ending."""


@helper
def restart(rules, words, i16, base):
    """Begin a new episode on the running random stream."""
    for k in range(1, rules[R_FINAL]):
        words[base + k] = np.uint64(0)
    small = base * 4
    agent = rules[R_RED]
    if agent == MIXED:
        number = draw(words, base + RNG, rules[R_WEIGHT_TOTAL])
        if number < rules[R_WEIGHT_BLINE]:
            agent = B_LINE
        elif number < rules[R_WEIGHT_BLINE] + rules[R_WEIGHT_MEANDER]:
            agent = MEANDER
        else:
            agent = SLEEPER
    i16[small + AGENT] = agent
    i16[small + RESULT] = UNKNOWN
    i16[small + BLUE] = -1
    i16[small + BLUE_OK] = UNKNOWN
    i16[small + GREEN] = -1
    i16[small + TARGET] = -1
    i16[small + EXPLOIT] = -1
    i16[small + DETECTED] = -1
    i16[small + PICKED] = -1
    i16[small + ANALYSED] = -1
    i16[small + STAGE] = -1
    i16[small + USER] = -1
    i16[small + SERVICE] = RUNNING | ACTIVE | ARMED
    i16[small + HELD] = 1 << USER0
    i16[small + KNOWN_IP] = 1 << USER0
    i16[small + KNOWN_HOST] = 1 << USER0
    i16[small + KNOWN_SUBNET] = 1 << 2


@inline_helper
def act_green(rules, t, words, i16, base, forced, i):
    """Let the green user act; returns the host it scans, or -1."""
    target = -1
    if rules[R_GREEN]:
        number = draw(words, base + RNG, 16)
        if number < 8:
            target = np.int64(t[T_GREEN + number])
    if forced is not None and forced[i, F_GREEN] != FREE:
        target = np.int64(forced[i, F_GREEN])
    i16[base * 4 + GREEN] = target
    return target


@inline_helper
def turn(rules, t, words, i32, i16, base, action, forced, allowed, i):
    """Play one step of a network; returns what it costs blue, in tenths."""
    small = base * 4
    i32[base * 2 + STEPS] += 1
    begin_view(rules, words, base)
    if rules[R_REDUCED]:
        action = full_action(t, i16, base, action)
    placed = act_blue(t, words, i16, base, action)
    seen = act_green(rules, t, words, i16, base, forced, i)
    kind, target = choose(t, words, i16, base, forced, allowed, i)
    if forced is not None:
        allowed[i, 2] = options_of(t, i16, base, target) if kind == EXPLOITING else 0
    result, events, ports, shell = act_red(rules, t, words, i16, base, kind, target, forced, i)
    i16[small + RESULT] = result
    if seen >= 0:
        count, open_ports = sockets(t, i16, base, seen), listening(t, i16, base, seen)
        if events and seen == target:
            events += count
            ports |= open_ports
        else:
            notice(rules, words, i32, i16, base, seen, count, open_ports, False, seen == placed)
    if events:
        notice(rules, words, i32, i16, base, target, events, ports, shell, target == placed)
    end_view(words, i16, base)
    cost = np.int64(i16[small + COST])
    if not i16[small + SERVICE] & RUNNING:
        cost += 100
    if action >= FIRST_RESTORE:
        cost += 10
    return cost


@helper
def finish(rules, i32, i16, base, log, lane, env):
    """Record an ended episode and what its last moment allows."""
    small, half = base * 4, base * 2
    i16[small + ENDED] = 1
    if rules[R_MASK]:
        for host in range(NUM_HOSTS):
            i16[4 * (base + rules[R_FINAL]) + host] = i16[host_at(base, host) + DECOYS]
    total = -i32[half + TENTHS] / 10.0
    row = record(log, lane, env, i32[half + STEPS], total, total, total == 0.0, TIME_UP)
    log[row, REC_EXTRA] = i16[small + AGENT]


@inline_helper
def advance(
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
    forced,
    allowed,
):
    """Advance the networks low..high-1 as `phase` says and write what they show."""
    i32, i16, t = words.view(np.int32), words.view(np.int16), rules.view(np.int16)
    shown, final = obs.reshape(obs.size), final_obs.reshape(final_obs.size)
    size = obs.size // reward.size
    if phase < RESET:
        tick(log, lane)
    for i in range(low, high):
        base = i * rules[R_ROW]
        ended = i16[base * 4 + ENDED] != 0
        if phase != LOOK:
            if ended:
                if phase == DISABLED:
                    continue
                restart(rules, words, i16, base)
                reward[i], terminated[i], truncated[i] = 0.0, False, False
            elif phase == RESET:
                continue
            else:
                cost = turn(rules, t, words, i32, i16, base, actions[i], forced, allowed, i)
                i32[base * 2 + TENTHS] += cost
                reward[i] = np.float32(-cost / 10.0)
                over = i32[base * 2 + STEPS] >= rules[R_LENGTH]
                terminated[i] = over and rules[R_TERMINAL] != 0
                truncated[i] = over and rules[R_TERMINAL] == 0
                if over:
                    finish(rules, i32, i16, base, log, lane, i)
                    if phase == SAME_STEP:
                        observe(rules, t, words, i32, i16, base, final, i * size)
                        restart(rules, words, i16, base)
        observe(rules, t, words, i32, i16, base, shown, i * size)


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
    """Advance the networks low..high-1 as `phase` says, by chance."""
    advance(
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
        None,
        None,
    )


@kernel
def replay(
    rules,
    words,
    log,
    actions,
    obs,
    reward,
    terminated,
    truncated,
    final_obs,
    forced,
    allowed,
    phase,
):
    """Advance all networks with the choices `forced` (N, 6); tells what red could have chosen.

    `allowed` (N, 3) gets the kind of red's action, the mask of its targets and the mask of exploits
    that the ports remembered of the forced target suggest.
    """
    advance(
        rules,
        words,
        log,
        actions,
        obs,
        reward,
        terminated,
        truncated,
        final_obs,
        0,
        len(reward),
        0,
        phase,
        forced,
        allowed,
    )


share = share_of(step)
