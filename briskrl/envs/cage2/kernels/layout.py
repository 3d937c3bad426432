"""The memory layout of a network, and operations on sets of hosts.

A network is one row of 64-bit words: scalars, then HOST_SIZE 16-bit numbers per host, then the
memory of options. Arrays with other number types are views of the same memory. Sets of hosts,
ports, decoys and exploits are masks in the orders of `briskrl.envs.cage2.scenario`.

`params` holds the settings as int64 words (the R_ names); `t`, the same memory as int16, holds the
scenario's tables behind them (the T_ names). See `briskrl.envs.cage2.layout` for both.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from briskrl.compiler.jit import inline_helper
from briskrl.envs.kernels.rng import draw

# Words of a row; then 32-bit numbers of it seen as int32, and 16-bit ones seen as int16.
RNG, SHOWN, COMP = range(3)
STEPS, TENTHS = 6, 7
(
    ENDED,
    AGENT,
    BLUE,
    BLUE_OK,
    GREEN,
    KIND,
    TARGET,
    RESULT,
    EXPLOIT,
    DETECTED,
    PICKED,
    PICKED_FROM,
    HELD,
    COST,
    SERVICE,
    REMEMBERED,
    KNOWN_IP,
    KNOWN_HOST,
    KNOWN_SUBNET,
    STAGE,
    USER,
    ISSUED,
    EMPTY,
    TRIED,
    SCANNED,
    EXPLOITED,
    ESCALATED,
    MAPPED,
    RESTORED,
    SEEN_SCAN,
    LAST_SCAN,
    ANALYSED,
) = range(16, 48)
HOSTS, HOST_SIZE = 48, 8
REMOVABLE, STICKY, ROOT, PORTS_OF, DECOYS, STACK, FILES, LAST_EVENT = range(8)
ROW_SCALARS = 38
"""Words of the scalars and the hosts; history and final decoys follow."""

NUM_HOSTS, NUM_DECOYS, NUM_EXPLOITS = 13, 8, 8
BLUE_SLEEP, MONITOR, FIRST_REMOVE, FIRST_DECOY, FIRST_RESTORE = 0, 1, 15, 28, 132
"""Blue actions; those before the first decoy analyse and remove."""
DEFENDER, OP_SERVER, USER0 = 0, 7, 8
ENTERPRISE_MASK, OPERATIONAL_MASK = 0b1110, 0b1111 << 4
VSFTPD = 7
SSH, HARAKA = 4, 6

# Bits of SERVICE: the OT process runs, its flag is set, its record knows the process, red knows it.
RUNNING, ACTIVE, ARMED, KNOWN = 1, 2, 4, 8
FROM_EXPLOIT, FROM_ESCALATION = 1, 2
"""Bits of FILES."""
FAILED, SUCCEEDED, UNKNOWN = range(3)
"""Values of RESULT and BLUE_OK."""
SLEEP, DISCOVER, SCAN, EXPLOITING, ESCALATE, IMPACT = range(6)
"""Values of KIND."""
B_LINE, MEANDER, SLEEPER, MIXED = range(4)
"""Values of AGENT; MIXED is only a value of R_RED."""
NO_SERVICE, USER_LEVEL, ROOT_LEVEL, NO_ACCOUNT = range(4)
"""What an exploit finds on a host."""

(
    R_ROW,
    R_RED,
    R_COMPETITION,
    R_WRAPPER2,
    R_GREEN,
    R_LENGTH,
    R_TERMINAL,
    R_REDUCED,
    R_FRAMES,
    R_SCANS_AT,
    R_DECOYS_AT,
    R_DECOY_BITS,
    R_EVENTS_AT,
    R_RESTORES_AT,
    R_CLOCK_AT,
    R_MASK,
    R_FINAL,
    R_WEIGHT_BLINE,
    R_WEIGHT_MEANDER,
    R_WEIGHT_TOTAL,
    R_MORE,
    R_RESPONSE,
    R_COMPROMISED,
    R_FIXABLE,
    R_INCIDENTS,
) = range(25)
ALWAYS = 1 << 31
"""R_RESPONSE of a blue that always acts; other values are a share of it."""
MASK_NONE, MASK_LEGAL, MASK_USEFUL = range(3)

T_HOSTS, H_SIZE = 128, 24
H_PORTS, H_SOCKETS, H_COST, H_LINK, H_SUBNET, H_FITS, H_COUNT, H_LISTED = range(8)
H_FINDS = 8
T_SUBNETS = T_HOSTS + H_SIZE * NUM_HOSTS
T_TRAPS = T_SUBNETS + 4
T_XPORTS = T_TRAPS + NUM_EXPLOITS
T_GREEN = T_XPORTS + NUM_EXPLOITS
T_LINE = T_GREEN + 8
T_JUMP = T_LINE + 32
T_USERS = T_JUMP + 16
T_REDUCED = T_USERS + 4
T_ORDER = T_REDUCED + 64
T_PLACES = T_ORDER + 8 * NUM_HOSTS
T_OPENS = T_PLACES + 16
T_BLOCKS = T_OPENS + 256
T_BEST = T_BLOCKS + 256
T_OPTIONS = T_BEST + 256
T_CATEGORY = T_OPTIONS + 4096
T_MEMBERS = T_CATEGORY + 16
T_END = T_MEMBERS + 8
TARGET_USER, TARGET_LINKED = -1, -2
"""Targets of T_LINE that depend on the episode."""

# Columns of the choices that a replay forces; FREE leaves one to chance.
F_KIND, F_TARGET, F_EXPLOIT, F_DETECTED, F_PICKED, F_GREEN = range(6)
FREE = -2
OTHER_PORT = 1 << 12
"""The random port of a reverse shell, in a mask of ports."""

ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@intrinsic
def ones(typing, number):
    """Number of bits that are set."""
    return number(number), lambda context, builder, signature, values: builder.ctpop(values[0])


@intrinsic
def lowest(typing, number):
    """Index of the lowest bit that is set; there must be one."""

    def generate(context, builder, signature, values):
        # The flag says that the argument is not zero.
        return builder.cttz(values[0], context.get_constant(types.boolean, True))

    return number(number), generate


@inline_helper
def any_of(state, base, mask):
    """A member of a nonempty set, drawn uniformly."""
    for _ in range(draw(state, base + RNG, ones(mask))):
        mask &= mask - 1
    return lowest(mask)


@inline_helper
def host_at(base, host):
    """First place of a host in a row seen as int16."""
    return base * 4 + HOSTS + HOST_SIZE * host


@inline_helper
def set_comp(state, base, host, value):
    """Set what blue remembers about a host: 0 No, 1 Unknown, 2 User, 3 Privileged."""
    shift = np.uint64(4 * host + 2)
    state[base + COMP] = (state[base + COMP] & ~(THREE << shift)) | (np.uint64(value) << shift)


@inline_helper
def comp_of(state, base, host):
    """What blue remembers about a host."""
    return np.int64((state[base + COMP] >> np.uint64(4 * host + 2)) & THREE)
