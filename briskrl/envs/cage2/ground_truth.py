"""The true state of networks as plain arrays, for analysis, tests and rendering."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import Ints
from briskrl.envs.cage2.kernels import layout as k

_REMEMBERED_BIT = 15


@dataclass(frozen=True, slots=True)
class Truth:
    """The true state of N networks; hosts, decoys and exploits are in the order of the scenario.

    Masks have bit h for host h. Fields about the last step are -1 before the first one; -1 also
    means "no target" and "not drawn".
    """

    steps: Ints
    """(N,): steps of the running episode."""
    returns: NDArray[np.float64]
    """(N,): sum of its rewards."""
    red_agent: Ints
    """(N,): 0 B_line, 1 Meander, 2 Sleep."""
    access: Ints
    """(N, 13): 0 none, 1 user, 2 privileged; User0 is always privileged."""
    sess_user_removable: Ints
    """(N, 13): red's user sessions that Remove ends."""
    sess_user_sticky: Ints
    """(N, 13): red's user sessions that it does not end."""
    sess_root: Ints
    """(N, 13): red's privileged sessions, without the permanent one on User0."""
    decoys: Ints
    """(N, 13, 8): how many of each decoy are up."""
    files: Ints
    """(N, 13): bit 1 dropper of an exploit, bit 2 dropper of an escalation."""
    compromise: Ints
    """(N, 13): compromise in blue's table: 0 No, 1 Unknown, 2 User, 3 Privileged."""
    ot_running: Ints
    """(N,): the process of the operational service is alive."""
    ot_active: Ints
    """(N,): its service flag is set."""
    ot_armed: Ints
    """(N,): an Impact can still kill the process."""
    ot_known: Ints
    """(N,): red knows of the service."""
    red_ports: Ints
    """(N, 13): ports red remembers, a mask over scenario.PORTS; bit 15 if it remembers a list."""
    known_ip: Ints
    """(N,): mask of hosts whose address red knows."""
    known_host: Ints
    """(N,): mask of hosts whose name red knows."""
    known_subnet: Ints
    """(N,): mask of subnets red knows."""
    bline_stage: Ints
    """(N,): last stage of B_line; -1 for other attackers."""
    meander_scanned: Ints
    """(N,): masks of Meander's memory; 0 for other attackers."""
    meander_exploited: Ints
    meander_escalated: Ints
    meander_mapped: Ints
    blue_action: Ints
    """(N,): the last step: blue's action among the 145."""
    blue_success: Ints
    """(N,): 0 failed, 1 succeeded, 2 unknown."""
    red_action: Ints
    """(N,): index in scenario.RED_KINDS."""
    red_target: Ints
    """(N,): host, or subnet of a discovery."""
    red_exploit: Ints
    """(N,): exploit that was tried."""
    red_success: Ints
    """(N,): 0 failed, 1 succeeded, 2 unknown."""
    detected: Ints
    """(N,): whether the shell of a reverse-shell exploit was seen."""
    esc_pick: Ints
    """(N,): whether an escalation took a removable session."""
    esc_options: Ints
    """(N,): number of sessions it chose among."""
    green_target: Ints
    """(N,): host that the green user scanned."""

    def of(self, env: int) -> Truth:
        """The state of one network."""
        parts = {field.name: getattr(self, field.name)[env : env + 1] for field in fields(self)}
        return Truth(**parts)


def read_truth(games: NDArray[np.uint64]) -> Truth:
    """The true state from rows of memory (N, words)."""
    shorts, halves = games.view(np.int16), games.view(np.int32)
    service = shorts[:, k.SERVICE].astype(np.int64)
    return Truth(
        steps=halves[:, k.STEPS].astype(np.int64),
        returns=0.0 - halves[:, k.TENTHS] / 10,
        compromise=_compromise(games),
        ot_running=service & 1,
        ot_active=service >> 1 & 1,
        ot_armed=service >> 2 & 1,
        ot_known=service >> 3 & 1,
        **_hosts(shorts),
        **_agents(shorts),
        **{name: shorts[:, at].astype(np.int64) for name, at in _SCALARS.items()},
    )


_SCALARS = {
    "red_agent": k.AGENT,
    "known_ip": k.KNOWN_IP,
    "known_host": k.KNOWN_HOST,
    "known_subnet": k.KNOWN_SUBNET,
    "blue_action": k.BLUE,
    "blue_success": k.BLUE_OK,
    "red_action": k.KIND,
    "red_target": k.TARGET,
    "red_exploit": k.EXPLOIT,
    "red_success": k.RESULT,
    "detected": k.DETECTED,
    "esc_pick": k.PICKED,
    "esc_options": k.PICKED_FROM,
    "green_target": k.GREEN,
}
"""Fields that are stored as they are."""
_MEANDER = {
    "meander_scanned": k.SCANNED,
    "meander_exploited": k.EXPLOITED,
    "meander_escalated": k.ESCALATED,
    "meander_mapped": k.MAPPED,
}


def _hosts(shorts: NDArray[np.int16]) -> dict[str, Ints]:
    numbers = shorts[:, k.HOSTS : k.HOSTS + k.HOST_SIZE * k.NUM_HOSTS].astype(np.int64)
    hosts = numbers.reshape(len(shorts), k.NUM_HOSTS, k.HOST_SIZE)
    removable, sticky, root = (hosts[:, :, at] for at in (k.REMOVABLE, k.STICKY, k.ROOT))
    access = np.where(root > 0, 2, np.where(removable + sticky > 0, 1, 0))
    access[:, k.USER0] = 2
    decoys = hosts[:, :, k.DECOYS, None] >> np.arange(k.NUM_DECOYS) & 1
    decoys[:, :, k.VSFTPD] = hosts[:, :, k.STACK]
    remembered = shorts[:, k.REMEMBERED, None].astype(np.int64) >> np.arange(k.NUM_HOSTS) & 1
    return {
        "access": access,
        "sess_user_removable": removable,
        "sess_user_sticky": sticky,
        "sess_root": root,
        "decoys": decoys,
        "files": hosts[:, :, k.FILES],
        "red_ports": hosts[:, :, k.PORTS_OF] | remembered << _REMEMBERED_BIT,
    }


def _agents(shorts: NDArray[np.int16]) -> dict[str, Ints]:
    """Memory of one kind of attacker."""
    agent = shorts[:, k.AGENT]
    memory = {
        name: np.where(agent == k.MEANDER, shorts[:, at], 0).astype(np.int64)
        for name, at in _MEANDER.items()
    }
    stage = np.where(agent == k.B_LINE, shorts[:, k.STAGE], -1).astype(np.int64)
    return {"bline_stage": stage, **memory}


def _compromise(games: NDArray[np.uint64]) -> Ints:
    shifts = (4 * np.arange(k.NUM_HOSTS) + 2).astype(np.uint64)
    flags: Ints = (games[:, k.COMP, None] >> shifts & np.uint64(3)).astype(np.int64)
    return flags
