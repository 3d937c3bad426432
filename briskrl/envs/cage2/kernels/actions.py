"""Effects of the actions of blue and red on a network.

Memory and tables are described in `layout.py`. Functions that take `forced` and `i` use the choices
in row i of `forced` instead of random draws; with None everything is random, at no cost.
"""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, inline_helper
from briskrl.envs.cage2.kernels.layout import (
    ACTIVE,
    ANALYSED,
    ARMED,
    BLUE,
    BLUE_OK,
    COST,
    DECOYS,
    DETECTED,
    DISCOVER,
    EMPTY,
    ENTERPRISE_MASK,
    ESCALATE,
    EXPLOIT,
    EXPLOITING,
    F_DETECTED,
    F_EXPLOIT,
    F_PICKED,
    FAILED,
    FILES,
    FIRST_DECOY,
    FROM_ESCALATION,
    FROM_EXPLOIT,
    H_COST,
    H_FINDS,
    H_FITS,
    H_LINK,
    H_PORTS,
    H_SIZE,
    H_SOCKETS,
    H_SUBNET,
    HARAKA,
    HELD,
    IMPACT,
    KNOWN,
    KNOWN_HOST,
    KNOWN_IP,
    KNOWN_SUBNET,
    MONITOR,
    NO_ACCOUNT,
    NO_SERVICE,
    NUM_DECOYS,
    NUM_HOSTS,
    OP_SERVER,
    OPERATIONAL_MASK,
    OTHER_PORT,
    PICKED,
    PICKED_FROM,
    PORTS_OF,
    R_COMPETITION,
    REMEMBERED,
    REMOVABLE,
    RESTORED,
    RNG,
    ROOT,
    ROOT_LEVEL,
    RUNNING,
    SCAN,
    SERVICE,
    SSH,
    STACK,
    STICKY,
    SUCCEEDED,
    T_BEST,
    T_BLOCKS,
    T_HOSTS,
    T_OPENS,
    T_OPTIONS,
    T_ORDER,
    T_REDUCED,
    T_SUBNETS,
    T_TRAPS,
    T_XPORTS,
    UNKNOWN,
    USER0,
    VSFTPD,
    comp_of,
    host_at,
    lowest,
    ones,
    set_comp,
)
from briskrl.envs.kernels.rng import draw


@inline_helper
def open_decoys(t, host, up):
    """Mask of the decoys that would succeed on a host where the decoys of another mask are up."""
    return np.int64(t[T_HOSTS + H_SIZE * host + H_FITS]) & ~np.int64(t[T_BLOCKS + up])


@helper
def next_decoy(t, i16, base, host):
    """The best decoy that would succeed on a host and is not up yet; -1 if there is none."""
    up = np.int64(i16[host_at(base, host) + DECOYS])
    left = open_decoys(t, host, up) & ~up
    for k in range(NUM_DECOYS):
        decoy = np.int64(t[T_ORDER + NUM_DECOYS * host + k])
        if decoy < 0 or (left >> decoy) & 1:
            return decoy
    return -1


@helper
def full_action(t, i16, base, action):
    """The index among all actions of an action of the reduced set."""
    meant = np.int64(t[T_REDUCED + action])
    if meant >= 0:
        return meant
    host = -1 - meant
    decoy = next_decoy(t, i16, base, host)
    return MONITOR if decoy < 0 else FIRST_DECOY + NUM_HOSTS * decoy + host


@inline_helper
def remove(state, i16, base, host):
    """End red's removable sessions on a host."""
    at = host_at(base, host)
    i16[at + REMOVABLE] = 0
    if not (i16[at + STICKY] or i16[at + ROOT] or host == USER0):
        i16[base * 4 + HELD] &= ~(1 << host)
    if comp_of(state, base, host) != 0:
        set_comp(state, base, host, 1)


@inline_helper
def restore(t, state, i16, base, host):
    """Reset a host to its initial state; red's permanent session on User0 survives."""
    small, at = base * 4, host_at(base, host)
    if i16[at + ROOT]:
        i16[small + COST] -= t[T_HOSTS + H_SIZE * host + H_COST]
    i16[at + REMOVABLE] = 0
    i16[at + STICKY] = 0
    i16[at + ROOT] = 0
    i16[at + DECOYS] = 0
    i16[at + STACK] = 0
    i16[at + FILES] = 0
    if host != USER0:
        i16[small + HELD] &= ~(1 << host)
    if host == OP_SERVER:
        i16[small + SERVICE] = (i16[small + SERVICE] & KNOWN) | RUNNING | ACTIVE
    i16[small + RESTORED] |= 1 << host
    set_comp(state, base, host, 0)


@inline_helper
def act_blue(t, state, i16, base, action):
    """Let blue act; returns the host that got a decoy, or -1."""
    small = base * 4
    i16[small + BLUE] = action
    i16[small + ANALYSED] = -1
    if action <= MONITOR:
        i16[small + BLUE_OK] = UNKNOWN if action == 0 else SUCCEEDED
        return -1
    what = (action - 2) // NUM_HOSTS
    host = action - 2 - NUM_HOSTS * what
    i16[small + BLUE_OK] = SUCCEEDED
    if what == 0:
        if i16[host_at(base, host) + FILES]:
            i16[small + ANALYSED] = host
    elif what == 1:
        remove(state, i16, base, host)
    elif what == 10:
        restore(t, state, i16, base, host)
    else:
        decoy, at = what - 2, host_at(base, host)
        if not (open_decoys(t, host, np.int64(i16[at + DECOYS])) >> decoy) & 1:
            i16[small + BLUE_OK] = FAILED
            return -1
        i16[at + DECOYS] |= 1 << decoy
        i16[at + STACK] += decoy == VSFTPD
        return host
    return -1


@inline_helper
def listening(t, i16, base, host):
    """Mask of the ports that listen on a host, decoys included."""
    decoys = np.int64(i16[host_at(base, host) + DECOYS])
    return np.int64(t[T_HOSTS + H_SIZE * host + H_PORTS]) | t[T_OPENS + decoys]


@inline_helper
def sockets(t, i16, base, host):
    """Number of sockets that listen on a host, decoys included."""
    at = host_at(base, host)
    decoys = np.int64(i16[at + DECOYS]) & ~(1 << VSFTPD)
    return t[T_HOSTS + H_SIZE * host + H_SOCKETS] + ones(decoys) + i16[at + STACK]


@inline_helper
def is_reachable(i16, base, hosts):
    """Whether red reaches hosts of a mask; Operational ones need a held Enterprise host."""
    return not hosts & OPERATIONAL_MASK or i16[base * 4 + HELD] & ENTERPRISE_MASK != 0


@inline_helper
def discover(t, i16, base, subnet):
    """Discover the addresses of a subnet."""
    small, hosts = base * 4, np.int64(t[T_SUBNETS + subnet])
    if not is_reachable(i16, base, hosts):
        return FAILED
    i16[small + KNOWN_SUBNET] |= 1 << subnet
    i16[small + KNOWN_IP] |= hosts
    return SUCCEEDED


@inline_helper
def escalate(t, state, i16, base, host, forced, i):
    """Make a session privileged."""
    small, at = base * 4, host_at(base, host)
    if not (i16[small + HELD] >> host) & 1:
        return FAILED
    if host != USER0 and i16[at + ROOT] == 0:
        removable, sticky = np.int64(i16[at + REMOVABLE]), np.int64(i16[at + STICKY])
        total = removable + sticky
        # Draws follow the order of the rules; a choice among one needs no draw.
        picked = removable > 0 and (sticky == 0 or draw(state, base + RNG, total) < removable)
        if forced is not None and forced[i, F_PICKED] >= 0:
            picked = forced[i, F_PICKED] != 0
        i16[small + PICKED], i16[small + PICKED_FROM] = picked, total
        i16[at + REMOVABLE] -= picked
        i16[at + STICKY] -= not picked
        i16[at + ROOT] = 1
        i16[at + FILES] |= FROM_ESCALATION
        i16[small + COST] += t[T_HOSTS + H_SIZE * host + H_COST]
    facts = T_HOSTS + H_SIZE * host
    i16[small + KNOWN_IP] |= (1 << host) | t[facts + H_LINK]
    i16[small + KNOWN_SUBNET] |= 1 << t[facts + H_SUBNET]
    if host == OP_SERVER:
        i16[small + SERVICE] |= KNOWN
    return SUCCEEDED


@inline_helper
def impact(i16, base):
    """Stop the service of Op_Server0; its process only dies while the record knows it."""
    small = base * 4
    service = np.int64(i16[small + SERVICE])
    if not ((i16[small + HELD] >> OP_SERVER) & 1 and service & KNOWN):
        return FAILED
    if service & ACTIVE and service & ARMED:
        service &= ~RUNNING
    i16[small + SERVICE] = service & ~ACTIVE
    return SUCCEEDED


@inline_helper
def pick_exploit(t, state, i16, base, host, forced, i):
    """The exploit that red tries on a host: its favorite three times in four; -1 if none."""
    options = options_of(t, i16, base, host)
    if options == 0:
        return -1
    best = np.int64(t[T_BEST + options])
    rest = options & ~(1 << best)
    if rest != 0:
        # One number for both draws: a quarter of its range is spread over the others.
        count = ones(rest)
        number = draw(state, base + RNG, 4 * count) - 3 * count
        if number >= 0:
            for _ in range(number):
                rest &= rest - 1
            best = lowest(rest)
    if forced is not None and forced[i, F_EXPLOIT] >= 0:
        best = np.int64(forced[i, F_EXPLOIT])
    return best


@inline_helper
def options_of(t, i16, base, host):
    """Mask of the exploits that the known ports of a host suggest."""
    return np.int64(t[T_OPTIONS + np.int64(i16[host_at(base, host) + PORTS_OF])])


@inline_helper
def attack(params, t, state, i16, base, host, forced, i):
    """Exploit a host; returns result, events, their ports, and whether a shell is seen."""
    small, at = base * 4, host_at(base, host)
    exploit = pick_exploit(t, state, i16, base, host, forced, i)
    i16[small + EXPLOIT] = exploit
    if exploit < 0 or not is_reachable(i16, base, 1 << host):
        return FAILED, 0, 0, False
    finds = np.int64(t[T_HOSTS + H_SIZE * host + H_FINDS + exploit])
    trapped = np.int64(i16[at + DECOYS]) & t[T_TRAPS + exploit]
    port = np.int64(t[T_XPORTS + exploit])
    if finds == NO_SERVICE:
        if not trapped:
            return FAILED, 0, 0, False
        return FAILED, 10 if exploit == SSH else 2, port, False
    if finds == NO_ACCOUNT:
        return FAILED, 10, port, False
    if exploit == HARAKA and params[R_COMPETITION] and (i16[small + RESTORED] >> host) & 1:
        return FAILED, 1, port, False
    i16[small + HELD] |= 1 << host
    i16[small + KNOWN_HOST] |= 1 << host
    if exploit == SSH:
        i16[at + STICKY] += 1
        return SUCCEEDED, 11, port, False
    i16[at + FILES] |= FROM_EXPLOIT
    shell = draw(state, base + RNG, 20) != 0
    if forced is not None and forced[i, F_DETECTED] >= 0:
        shell = forced[i, F_DETECTED] != 0
    i16[small + DETECTED] = shell
    if finds == ROOT_LEVEL:
        if i16[at + ROOT] == 0:
            i16[small + COST] += t[T_HOSTS + H_SIZE * host + H_COST]
        i16[at + ROOT] += 1
    elif shell:
        i16[at + REMOVABLE] += 1
    else:
        i16[at + STICKY] += 1
    if shell:
        return SUCCEEDED, 2, port | OTHER_PORT, True
    return SUCCEEDED, 1, port, False


@inline_helper
def probe(params, t, i16, base, host):
    """Scan a host; always succeeds, but finds nothing if the host cannot be reached."""
    small, at = base * 4, host_at(base, host)
    if not is_reachable(i16, base, 1 << host):
        i16[small + EMPTY] = 1
        return SUCCEEDED, 0, 0, False
    ports = listening(t, i16, base, host)
    if params[R_COMPETITION]:
        i16[at + PORTS_OF] |= ports
    else:
        i16[at + PORTS_OF] = ports
    i16[small + REMEMBERED] |= 1 << host
    return SUCCEEDED, np.int64(sockets(t, i16, base, host)), ports, False


@inline_helper
def act_red(params, t, state, i16, base, kind, target, forced, i):
    """Let red act; returns result, events on the target, ports, and whether a shell is seen."""
    small = base * 4
    i16[small + EMPTY] = 0
    i16[small + EXPLOIT] = -1
    i16[small + DETECTED] = -1
    i16[small + PICKED] = -1
    i16[small + PICKED_FROM] = 0
    if kind == EXPLOITING:
        return attack(params, t, state, i16, base, target, forced, i)
    if kind == SCAN:
        return probe(params, t, i16, base, target)
    if kind == ESCALATE:
        return escalate(t, state, i16, base, target, forced, i), 0, 0, False
    if kind == DISCOVER:
        return discover(t, i16, base, target), 0, 0, False
    if kind == IMPACT:
        return impact(i16, base), 0, 0, False
    return UNKNOWN, 0, 0, False
