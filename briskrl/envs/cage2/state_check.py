"""Checks a loaded state of CAGE-2 networks, whose numbers kernels use as indices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from briskrl.core.state_checks import check_range
from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.kernels import layout as k
from briskrl.envs.cage2.kernels.red_agents import LAST_STAGE
from briskrl.envs.cage2.layout import Layout

_HOSTS = (1 << k.NUM_HOSTS) - 1
_SUBNETS = (1 << len(s.SUBNETS)) - 1
_PORTS = (1 << len(s.PORTS)) - 1
_DECOYS = (1 << k.NUM_DECOYS) - 1
_SHORT = np.iinfo(np.int16).max
_VIEW = (1 << 4 * k.NUM_HOSTS) - 1

_NUMBERS = {
    "agent": (k.AGENT, 0, k.SLEEPER),
    "blue action": (k.BLUE, -1, len(s.ACTION_NAMES) - 1),
    "blue result": (k.BLUE_OK, 0, k.UNKNOWN),
    "green target": (k.GREEN, -1, k.NUM_HOSTS - 1),
    "red action": (k.KIND, 0, k.IMPACT),
    "red target": (k.TARGET, -1, k.NUM_HOSTS - 1),
    "red result": (k.RESULT, 0, k.UNKNOWN),
    "exploit": (k.EXPLOIT, -1, k.NUM_EXPLOITS - 1),
    "detected": (k.DETECTED, -1, 1),
    "picked session": (k.PICKED, -1, 1),
    "sessions to pick from": (k.PICKED_FROM, 0, _SHORT),
    "held hosts": (k.HELD, 0, _HOSTS),
    "cost": (k.COST, 0, _SHORT),
    "service": (k.SERVICE, 0, k.RUNNING | k.ACTIVE | k.ARMED | k.KNOWN),
    "remembered hosts": (k.REMEMBERED, 0, _HOSTS),
    "known addresses": (k.KNOWN_IP, 0, _HOSTS),
    "known hosts": (k.KNOWN_HOST, 0, _HOSTS),
    "known subnets": (k.KNOWN_SUBNET, 0, _SUBNETS),
    "stage": (k.STAGE, -1, LAST_STAGE),
    "user host": (k.USER, -1, k.NUM_HOSTS - 1),
    "issued": (k.ISSUED, 0, 1),
    "empty scan": (k.EMPTY, 0, 1),
    "tried subnets": (k.TRIED, 0, _SUBNETS),
    "scanned hosts": (k.SCANNED, 0, _HOSTS),
    "exploited hosts": (k.EXPLOITED, 0, _HOSTS),
    "escalated hosts": (k.ESCALATED, 0, _HOSTS),
    "mapped hosts": (k.MAPPED, 0, _HOSTS),
    "restored hosts": (k.RESTORED, 0, _HOSTS),
    "seen scans": (k.SEEN_SCAN, 0, _HOSTS),
    "last scan": (k.LAST_SCAN, 0, _HOSTS),
    "analysed host": (k.ANALYSED, -1, k.NUM_HOSTS - 1),
}
"""Places of numbers in a row seen as int16, and the smallest and largest value of each."""

_OF_HOSTS = {
    "removable sessions": (k.REMOVABLE, _SHORT),
    "sticky sessions": (k.STICKY, _SHORT),
    "root sessions": (k.ROOT, _SHORT),
    "known ports": (k.PORTS_OF, _PORTS),
    "decoys": (k.DECOYS, _DECOYS),
    "stacked decoys": (k.STACK, _SHORT),
    "files": (k.FILES, k.FROM_EXPLOIT | k.FROM_ESCALATION),
    "last event": (k.LAST_EVENT, _SHORT),
}
"""Places of numbers among those of a host, and the largest value of each."""


def check_networks(rows: NDArray[np.uint64], layout: Layout) -> None:
    """Check the memory of networks (N, row_words).

    Raises:
        InvalidStateError: No network can have written it.
    """
    shorts, ints = rows.view(np.int16), rows.view(np.int32)
    for name, (at, low, high) in _NUMBERS.items():
        check_range(f"cage2: {name}", shorts[:, at], low, high)
    # Red's action and its target are used together.
    red = shorts[:, [k.KIND, k.TARGET]].astype(np.int64)
    acting, discovering = red[:, 0] != k.SLEEP, red[:, 0] == k.DISCOVER
    check_range("cage2: red target", red[acting, 1], 0, k.NUM_HOSTS - 1)
    check_range("cage2: red target", red[discovering, 1], 0, len(s.SUBNETS) - 1)
    hosts = shorts[:, k.HOSTS : k.HOSTS + k.HOST_SIZE * k.NUM_HOSTS]
    hosts = hosts.reshape(len(rows), k.NUM_HOSTS, k.HOST_SIZE)
    for name, (at, high) in _OF_HOSTS.items():
        check_range(f"cage2: {name}", hosts[:, :, at], 0, high)
    steps = ints[:, k.STEPS]
    check_range("cage2: steps", steps, 0, layout.config.length)
    # An event is never later than now.
    check_range(
        "cage2: steps since an event", steps[:, None] - hosts[:, :, k.LAST_EVENT], 0, _SHORT
    )
    check_range("cage2: total cost", ints[:, k.TENTHS], 0, np.iinfo(np.int32).max // 2)
    check_range("cage2: view", rows[:, [k.SHOWN, k.COMP]], 0, _VIEW)
    check_range("cage2: earlier views", rows[:, k.ROW_SCALARS : layout.final], 0, _VIEW)
    if layout.config.mask != "none":
        final = shorts[:, 4 * layout.final : 4 * layout.final + k.NUM_HOSTS]
        check_range("cage2: final decoys", final, 0, _DECOYS)
