"""The rules of CAGE-2: starts, turns and episode ends, bound to the generic step loop.

Memory and settings are described in `layout.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from briskrl.compiler.jit import helper, inline_helper
from briskrl.envs.cage2.kernels.actions import (
    act_blue,
    act_red,
    full_action,
    listening,
    options_of,
    sockets,
)
from briskrl.envs.cage2.kernels.incidents import note_addressed, note_open
from briskrl.envs.cage2.kernels.layout import (
    ACTIVE,
    AGENT,
    ALWAYS,
    ANALYSED,
    ARMED,
    B_LINE,
    BLUE,
    BLUE_OK,
    BLUE_SLEEP,
    COST,
    DECOYS,
    DETECTED,
    ENDED,
    EXPLOIT,
    EXPLOITING,
    F_GREEN,
    FILES,
    FIRST_RESTORE,
    FREE,
    FROM_EXPLOIT,
    GREEN,
    HELD,
    KNOWN_HOST,
    KNOWN_IP,
    KNOWN_SUBNET,
    MEANDER,
    MIXED,
    NUM_HOSTS,
    PICKED,
    R_COMPROMISED,
    R_FINAL,
    R_FIXABLE,
    R_GREEN,
    R_INCIDENTS,
    R_LENGTH,
    R_MASK,
    R_RED,
    R_REDUCED,
    R_RESPONSE,
    R_ROW,
    R_TERMINAL,
    R_WEIGHT_BLINE,
    R_WEIGHT_MEANDER,
    R_WEIGHT_TOTAL,
    REMOVABLE,
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
    any_of,
    host_at,
)
from briskrl.envs.cage2.kernels.observation import begin_view, end_view, notice, observe
from briskrl.envs.cage2.kernels.red_agents import choose
from briskrl.envs.kernels.episode_log import REC_EXTRA, record
from briskrl.envs.kernels.rng import draw
from briskrl.envs.kernels.step_loop import EnvFunctions, build_step_kernels, specialize, step

TIME_UP = 1
"""The only cause of an episode end."""


@helper
def begin_episode(params, state, i16, base):
    """Begin a new episode on the running random stream."""
    for k in range(1, params[R_FINAL]):
        state[base + k] = np.uint64(0)
    small = base * 4
    agent = params[R_RED]
    if agent == MIXED:
        number = draw(state, base + RNG, params[R_WEIGHT_TOTAL])
        if number < params[R_WEIGHT_BLINE]:
            agent = B_LINE
        elif number < params[R_WEIGHT_BLINE] + params[R_WEIGHT_MEANDER]:
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
    if params[R_COMPROMISED]:
        compromise_hosts(params, state, i16, base)


@helper
def compromise_hosts(params, state, i16, base):
    """Give red removable user sessions, as after exploits that blue did not see."""
    small, left = base * 4, np.int64(params[R_FIXABLE])
    for _ in range(params[R_COMPROMISED]):
        host = any_of(state, base, left)
        left &= ~(1 << host)
        at = host_at(base, host)
        i16[at + REMOVABLE] = 1
        i16[at + FILES] = FROM_EXPLOIT
        i16[small + HELD] |= 1 << host
        i16[small + KNOWN_IP] |= 1 << host
        i16[small + KNOWN_HOST] |= 1 << host


@inline_helper
def act_green(params, t, state, i16, base, forced, i):
    """Let the green user act; returns the host it scans, or -1."""
    target = -1
    if params[R_GREEN]:
        number = draw(state, base + RNG, 16)
        if number < 8:
            target = np.int64(t[T_GREEN + number])
    if forced is not None and forced[i, F_GREEN] != FREE:
        target = np.int64(forced[i, F_GREEN])
    i16[base * 4 + GREEN] = target
    return target


@inline_helper
def turn(params, t, state, i32, i16, base, action, forced, allowed, i):
    """Play one step of a network; returns its cost for blue, in tenths."""
    small = base * 4
    i32[base * 2 + STEPS] += 1
    begin_view(params, state, base)
    if params[R_REDUCED]:
        action = full_action(t, i16, base, action)
    if params[R_RESPONSE] < ALWAYS and draw(state, base + RNG, ALWAYS) >= params[R_RESPONSE]:
        action = BLUE_SLEEP
    if params[R_INCIDENTS]:
        note_addressed(t, state, params[R_INCIDENTS] + i, action)
    placed = act_blue(t, state, i16, base, action)
    seen = act_green(params, t, state, i16, base, forced, i)
    kind, target = choose(t, state, i16, base, forced, allowed, i)
    if forced is not None:
        allowed[i, 2] = options_of(t, i16, base, target) if kind == EXPLOITING else 0
    result, events, ports, shell = act_red(params, t, state, i16, base, kind, target, forced, i)
    i16[small + RESULT] = result
    scans = 0
    if seen >= 0:
        count, open_ports = sockets(t, i16, base, seen), listening(t, i16, base, seen)
        if events and seen == target:
            events += count
            ports |= open_ports
        else:
            here = seen == placed
            scans = notice(
                params, state, i32, i16, base, seen, count, open_ports, False, here, scans
            )
    if events:
        here = target == placed
        notice(params, state, i32, i16, base, target, events, ports, shell, here, scans)
    end_view(state, i16, base)
    cost = np.int64(i16[small + COST])
    if not i16[small + SERVICE] & RUNNING:
        cost += 100
    if action >= FIRST_RESTORE:
        cost += 10
    return cost


class Memory(NamedTuple):
    """The arrays of a batch of networks."""

    params: np.ndarray
    """Settings, int64."""
    tables: np.ndarray
    """The same memory as int16, with the tables of the scenario."""
    state: np.ndarray
    """All networks, uint64; i32 and i16 are views of it."""
    i32: np.ndarray
    i16: np.ndarray
    forced: np.ndarray | None
    """(N, 6): random choices to replay, or None."""
    allowed: np.ndarray | None
    """(N, 3): output of a replay; see `replay`."""


@inline_helper
def open_memory(params, state):
    """The arrays of a batch."""
    i32, i16 = state.view(np.int32), state.view(np.int16)
    return Memory(params, params.view(np.int16), state, i32, i16, None, None)


@inline_helper
def open_replay(params, state):
    """The arrays of a batch whose random choices are given; see `replay`."""
    settings, forced, allowed = params
    i32, i16 = state.view(np.int32), state.view(np.int16)
    return Memory(settings, settings.view(np.int16), state, i32, i16, forced, allowed)


@inline_helper
def row_words(m):
    """Words per network."""
    return m.params[R_ROW]


@inline_helper
def begin_network(m, base, i, lane):
    """Start a new episode."""
    begin_episode(m.params, m.state, m.i16, base)


@inline_helper
def advance(m, base, i, lane, actions):
    """Play one step; returns the reward, the cause of the end or 0, and whether it is terminal."""
    params, i32 = m.params, m.i32
    cost = turn(params, m.tables, m.state, i32, m.i16, base, actions[i], m.forced, m.allowed, i)
    i32[base * 2 + TENTHS] += cost
    over = i32[base * 2 + STEPS] >= params[R_LENGTH]
    terminal = over and params[R_TERMINAL] != 0
    return np.float32(-cost / 10.0), TIME_UP if over else 0, terminal


@inline_helper
def record_episode(m, base, i, lane, log, cause):
    """Write the record of an ended episode."""
    record_network(m.params, m.i32, m.i16, base, i, lane, log, cause)


@helper
def record_network(params, i32, i16, base, i, lane, log, cause):
    """Write the record and keep what the final action mask needs; not inlined, as it is rare."""
    small, half = base * 4, base * 2
    if params[R_MASK]:
        for host in range(NUM_HOSTS):
            i16[4 * (base + params[R_FINAL]) + host] = i16[host_at(base, host) + DECOYS]
    total = -i32[half + TENTHS] / 10.0
    row = record(log, lane, i, i32[half + STEPS], total, total, total == 0.0, cause)
    log[row, REC_EXTRA] = i16[small + AGENT]


@inline_helper
def observe_network(m, base, lane, obs, at):
    """Write the observation to obs[at:]."""
    observe(m.params, m.tables, m.state, m.i32, m.i16, base, obs, at)
    if m.params[R_INCIDENTS]:
        word = m.params[R_INCIDENTS] + base // m.params[R_ROW]
        note_open(m.tables, m.state, word, np.int64(m.i16[base * 4 + HELD]))


@inline_helper
def rebuild(m, base, i, lane):
    """Do nothing: no memory is derived from the state."""


_FUNCTIONS = EnvFunctions(
    ended=ENDED,
    open_memory=open_memory,
    row_words=row_words,
    begin_episode=begin_network,
    advance=advance,
    record_episode=record_episode,
    observe=observe_network,
    observe_final=observe_network,
    rebuild=rebuild,
)
KERNELS = build_step_kernels(_FUNCTIONS)

replay = specialize(
    step, __name__, "replay", _FUNCTIONS._replace(open_memory=open_replay)._asdict()
)
"""The step loop with given random choices: `params` is the tuple (params, forced, allowed).

`forced` (N, 6) holds the choices. `allowed` (N, 3) gets the kind of red's action, the mask of its
targets, and the mask of exploits that the known ports of the forced target suggest.
"""
