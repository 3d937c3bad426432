"""What blue sees: flags from events, observations with their options, and action masks."""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, inline_helper, kernel
from briskrl.envs.cage2.kernels.actions import open_decoys
from briskrl.envs.cage2.kernels.layout import (
    ANALYSED,
    COMP,
    DECOYS,
    FIRST_DECOY,
    H_COUNT,
    H_LISTED,
    H_SIZE,
    LAST_EVENT,
    LAST_SCAN,
    MASK_USEFUL,
    NUM_DECOYS,
    NUM_HOSTS,
    ONE,
    R_CLOCK_AT,
    R_DECOY_BITS,
    R_DECOYS_AT,
    R_EVENTS_AT,
    R_FINAL,
    R_FRAMES,
    R_MASK,
    R_MORE,
    R_REDUCED,
    R_RESTORES_AT,
    R_ROW,
    R_SCANS_AT,
    R_WRAPPER2,
    RESTORED,
    ROW_SCALARS,
    SEEN_SCAN,
    SHOWN,
    STEPS,
    T_HOSTS,
    T_PLACES,
    host_at,
    ones,
    set_comp,
)

BITS = 4 * NUM_HOSTS
QUIET, SCANNED, EXPLOITED = 0, 1, 3
"""Activity of a host as two bits of the observation."""


@inline_helper
def activity(params, events, ports, shell, placed):
    """Activity flags of events on a host; differs if blue has just placed a decoy there."""
    entries, distinct = events + placed, ones(ports)
    if entries >= 3 and distinct >= 3:
        return SCANNED
    if shell or (entries >= 3 and distinct == 1):
        return EXPLOITED
    if placed and not params[R_WRAPPER2]:
        return QUIET
    return SCANNED


@inline_helper
def notice(params, state, i32, i16, base, host, events, ports, shell, placed, scans):
    """Show the events of this step on a host, of which there is at least one; updates memory.

    `scans` is the mask of hosts that already show a scan in this step; returns it with this host
    added if this one does. They are all the last scan: blue cannot know which of them was red's.
    """
    small = base * 4
    shown = activity(params, events, ports, shell, placed)
    state[base + SHOWN] |= np.uint64(shown) << np.uint64(4 * host)
    if shown == EXPLOITED:
        set_comp(state, base, host, 2)
    elif shown == SCANNED:
        scans |= 1 << host
        i16[small + SEEN_SCAN] |= scans
        i16[small + LAST_SCAN] = scans
    if shown:
        i16[host_at(base, host) + LAST_EVENT] = i32[base * 2 + STEPS]
    return scans


@inline_helper
def begin_view(params, state, base):
    """Start the view of a new step; older ones shift by one."""
    history = base + ROW_SCALARS
    for k in range(params[R_FRAMES] - 2, 0, -1):
        state[history + k] = state[history + k - 1]
    if params[R_FRAMES] > 1:
        state[history] = state[base + SHOWN]
    state[base + SHOWN] = np.uint64(0)


@inline_helper
def end_view(state, i16, base):
    """Add the result of an analysis and the remembered compromise to the view."""
    found = np.int64(i16[base * 4 + ANALYSED])
    if found >= 0:
        set_comp(state, base, found, 3)
    state[base + SHOWN] |= state[base + COMP]


@inline_helper
def spread_bits(word, count, obs, at):
    """Write the lowest bits of a word as numbers 0 and 1."""
    for k in range(count):
        obs[at + k] = np.float32((word >> np.uint64(k)) & ONE)


@inline_helper
def observe(params, t, state, i32, i16, base, obs, at):
    """Write the observation to obs[at:]."""
    spread_bits(state[base + SHOWN], BITS, obs, at)
    if params[R_MORE]:
        observe_more(params, t, state, i32, i16, base, obs, at)


@helper
def observe_more(params, t, state, i32, i16, base, obs, at):
    """Write the parts of an observation that options add."""
    small = base * 4
    for k in range(params[R_FRAMES] - 1):
        spread_bits(state[base + ROW_SCALARS + k], BITS, obs, at + BITS * (k + 1))
    if params[R_SCANS_AT]:
        seen, last = i16[small + SEEN_SCAN], i16[small + LAST_SCAN]
        for host in range(NUM_HOSTS):
            halves = ((seen >> host) & 1) + ((last >> host) & 1)
            obs[at + params[R_SCANS_AT] + host] = np.float32(0.5) * halves
    if params[R_DECOYS_AT]:
        observe_decoys(params, t, i16, base, obs, at + params[R_DECOYS_AT])
    if params[R_EVENTS_AT]:
        now = i32[base * 2 + STEPS]
        for host in range(NUM_HOSTS):
            then = i16[host_at(base, host) + LAST_EVENT]
            fresh = np.float32(1.0) / np.float32(now - then + 1)
            obs[at + params[R_EVENTS_AT] + host] = fresh if then > 0 else np.float32(0.0)
    if params[R_RESTORES_AT]:
        spread_bits(np.uint64(i16[small + RESTORED]), NUM_HOSTS, obs, at + params[R_RESTORES_AT])
    if params[R_CLOCK_AT]:
        # Not as a fraction of the episode: blue does not know its length.
        hundreds = np.float32(i32[base * 2 + STEPS]) / np.float32(100.0)
        obs[at + params[R_CLOCK_AT]] = min(hundreds, np.float32(1.0))


@helper
def observe_decoys(params, t, i16, base, obs, at):
    """Write the decoys that are up: one number per host and kind, or the fraction per host."""
    for host in range(NUM_HOSTS):
        up = np.int64(i16[host_at(base, host) + DECOYS])
        if params[R_DECOY_BITS]:
            spread_bits(np.uint64(up), NUM_DECOYS, obs, at + NUM_DECOYS * host)
        else:
            most = np.float32(t[T_HOSTS + H_SIZE * host + H_COUNT])
            obs[at + host] = np.float32(ones(up)) / most


@kernel
def write_masks(params, state, final, mask):
    """Write the legal actions (N, A), at present or at the end of ended episodes."""
    i16, t = state.view(np.int16), params.view(np.int16)
    mask[:, :] = True
    useful = params[R_MASK] == MASK_USEFUL
    for i in range(mask.shape[0] if params[R_MASK] else 0):
        base = i * params[R_ROW]
        for host in range(NUM_HOSTS):
            at = 4 * (base + params[R_FINAL]) + host if final else host_at(base, host) + DECOYS
            up = np.int64(i16[at]) if useful else 0
            open_now = open_decoys(t, host, up)
            if params[R_REDUCED]:
                place = t[T_PLACES + host]
                if place >= 0:
                    listed = np.int64(t[T_HOSTS + H_SIZE * host + H_LISTED])
                    mask[i, place] = (open_now & listed & ~up) != 0
            else:
                for decoy in range(NUM_DECOYS):
                    place = FIRST_DECOY + NUM_HOSTS * decoy + host
                    mask[i, place] = (open_now >> decoy) & 1
