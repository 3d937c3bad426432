"""The scripted attackers: red's next action from its memory and its last result."""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import inline_helper
from briskrl.envs.cage2.kernels.layout import (
    AGENT,
    B_LINE,
    DISCOVER,
    EMPTY,
    ENTERPRISE_MASK,
    ESCALATE,
    ESCALATED,
    EXPLOITED,
    EXPLOITING,
    F_KIND,
    F_TARGET,
    FAILED,
    H_LINK,
    H_SIZE,
    IMPACT,
    ISSUED,
    KIND,
    KNOWN_HOST,
    KNOWN_IP,
    KNOWN_SUBNET,
    MAPPED,
    MEANDER,
    OP_SERVER,
    OPERATIONAL_MASK,
    RESULT,
    RNG,
    SCAN,
    SCANNED,
    SLEEP,
    STAGE,
    SUCCEEDED,
    T_HOSTS,
    T_JUMP,
    T_LINE,
    T_USERS,
    TARGET,
    TARGET_USER,
    TRIED,
    USER,
    lowest,
    ones,
)
from briskrl.envs.kernels.rng import draw

LAST_STAGE, FIRST_OF_SERVER = 14, 12


@inline_helper
def advance_bline(t, i16, base):
    """Advance B_line to the stage that follows the last result; returns its kind and targets."""
    small = base * 4
    stage = np.int64(i16[small + STAGE])
    if stage < 0:
        stage = 0
    elif i16[small + RESULT] == SUCCEEDED:
        stage = min(stage + 1, LAST_STAGE)
        if stage == FIRST_OF_SERVER and i16[small + EMPTY] and not i16[small + ISSUED]:
            # The scan found nothing to exploit: start again after the first discovery.
            stage = 1
    else:
        stage = np.int64(t[T_JUMP + stage])
    i16[small + STAGE] = stage
    if stage == FIRST_OF_SERVER:
        i16[small + ISSUED] = 1
    kind, target = np.int64(t[T_LINE + 2 * stage]), np.int64(t[T_LINE + 2 * stage + 1])
    if target >= 0:
        return kind, 1 << target
    user = np.int64(i16[small + USER])
    if user < 0:
        return kind, np.int64(t[T_USERS])
    if target == TARGET_USER:
        return kind, 1 << user
    return kind, np.int64(t[T_HOSTS + H_SIZE * user + H_LINK])


@inline_helper
def forget(i16, base, hosts):
    """Remove hosts from Meander's sets; returns whether there were any."""
    small = base * 4
    lost = np.int64(i16[small + ESCALATED]) & hosts
    i16[small + ESCALATED] &= ~lost
    i16[small + EXPLOITED] &= ~lost
    return lost != 0


@inline_helper
def digest(i16, base):
    """Update Meander's memory with the result of its last action."""
    small = base * 4
    kind, result = i16[small + KIND], i16[small + RESULT]
    if kind == EXPLOITING:
        host = 1 << np.int64(i16[small + TARGET])
        if result == SUCCEEDED:
            i16[small + MAPPED] |= host
        else:
            i16[small + EXPLOITED] &= ~host
            if not forget(i16, base, OPERATIONAL_MASK):
                forget(i16, base, ENTERPRISE_MASK)
    elif kind >= ESCALATE and result == FAILED:
        host = 1 << np.int64(i16[small + TARGET])
        i16[small + ESCALATED] &= ~host
        i16[small + EXPLOITED] &= ~(host & i16[small + MAPPED])


@inline_helper
def advance_meander(i16, base):
    """Process the last result; returns the kind of the next action and its possible targets."""
    small = base * 4
    digest(i16, base)
    escalated, exploited = np.int64(i16[small + ESCALATED]), np.int64(i16[small + EXPLOITED])
    if (escalated >> OP_SERVER) & 1:
        return IMPACT, 1 << OP_SERVER
    subnets = np.int64(i16[small + KNOWN_SUBNET]) & ~np.int64(i16[small + TRIED])
    if subnets:
        return DISCOVER, subnets & -subnets
    known = np.int64(i16[small + KNOWN_IP])
    targets = known & ~np.int64(i16[small + SCANNED])
    if targets:
        return SCAN, targets
    lost = np.int64(i16[small + MAPPED]) & ~exploited
    targets = np.int64(i16[small + KNOWN_HOST]) & ~escalated & ~lost
    if targets:
        return ESCALATE, targets
    return EXPLOITING, known & ~exploited


@inline_helper
def remember(i16, base, kind, target):
    """Record the next action in Meander's memory."""
    small, bit = base * 4, 1 << target
    if kind == DISCOVER:
        i16[small + TRIED] |= bit
    elif kind == SCAN:
        i16[small + SCANNED] |= bit
    elif kind == ESCALATE:
        i16[small + ESCALATED] |= bit
    elif kind == EXPLOITING:
        i16[small + EXPLOITED] |= bit


@inline_helper
def choose(t, state, i16, base, forced, allowed, i):
    """Red's next action as kind and target, which it remembers; SLEEP has the target -1.

    If choices are forced, `allowed` gets the kind and the mask of possible targets.
    """
    small = base * 4
    agent = i16[small + AGENT]
    kind, targets, target = SLEEP, 0, -1
    if agent == B_LINE:
        kind, targets = advance_bline(t, i16, base)
    elif agent == MEANDER:
        kind, targets = advance_meander(i16, base)
    if targets:
        count = ones(targets)
        if count > 1:
            rest = targets
            for _ in range(draw(state, base + RNG, count)):
                rest &= rest - 1
            target = lowest(rest)
        else:
            target = lowest(targets)
    else:
        kind = SLEEP
    if forced is not None:
        allowed[i, 0], allowed[i, 1] = kind, targets
        if forced[i, F_KIND] >= 0:
            kind, target = np.int64(forced[i, F_KIND]), np.int64(forced[i, F_TARGET])
    if agent == MEANDER:
        remember(i16, base, kind, target)
    elif agent == B_LINE and i16[small + STAGE] == 1:
        i16[small + USER] = target
    i16[small + KIND] = kind
    i16[small + TARGET] = target
    return kind, target
