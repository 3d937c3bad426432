"""Hand-written defenders: baselines that training has to beat.

They read the 52 bits at the start of every observation and choose among all 145 actions. Those with
a memory are classes: an object plays one batch, and `restart` gets the episodes that began anew.
"""

from __future__ import annotations

import numpy as np

from briskrl.core.types import Bools, Floats, Ints
from briskrl.envs.cage2.scenario import HOST_NAMES, MONITOR, NUM_HOSTS, SLEEP, action_index

_BITS = 4 * NUM_HOSTS
_ANALYSE, _REMOVE, _RESTORE = (
    action_index(f"{kind} {HOST_NAMES[0]}") for kind in ("Analyse", "Remove", "Restore")
)
_WATCHED = tuple(
    map(
        HOST_NAMES.index,
        (
            *("Op_Server0", "Enterprise2", "Enterprise1", "Enterprise0"),
            *("Op_Host0", "Op_Host1", "Op_Host2"),
            *("User1", "User2", "User3", "User4"),
        ),
    )
)
_PLAN = tuple(
    map(
        action_index,
        (
            "DecoyTomcat Enterprise0",
            "DecoyHarakaSMPT Enterprise0",
            "DecoyFemitter Enterprise1",
            "DecoyFemitter Enterprise2",
            "DecoyHarakaSMPT Op_Server0",
            "DecoyTomcat Op_Server0",
            "DecoyApache User1",
            "DecoyTomcat User1",
            "DecoyFemitter User2",
            "DecoySSHD User3",
            "DecoyTomcat User2",
            "DecoyVsftpd Op_Server0",
            "DecoyApache Enterprise0",
            "DecoySvchost User1",
            "DecoySmss User1",
            "DecoyHarakaSMPT Op_Host0",
        ),
    )
)
_UNKNOWN, _USER, _PRIVILEGED = 1, 2, 3


def activity(obs: Floats) -> Ints:
    """Activity of each host (N, 13) in observations (N, 52 or more): 0 None, 1 Scan, 2 Exploit."""
    bits = obs[:, :_BITS].reshape(len(obs), NUM_HOSTS, 4)
    return (bits[:, :, 0] + bits[:, :, 1]).astype(np.int64)


def compromise(obs: Floats) -> Ints:
    """Compromise of each host, (N, 13): 0 No, 1 Unknown, 2 User, 3 Privileged."""
    bits = obs[:, :_BITS].reshape(len(obs), NUM_HOSTS, 4)
    return (bits[:, :, 2] + 2 * bits[:, :, 3]).astype(np.int64)


def sleep_actions(obs: Floats) -> Ints:
    """Sleep in every step."""
    return np.full(len(obs), SLEEP, np.int64)


class ReactRestore:
    """Restores every host that shows an exploit, except User0; first come, first served.

    The organizers' player of this name looks for process ids in the raw events; this one has only
    the observation and so restores after failed brute force too.
    """

    def __init__(self) -> None:
        self._turn = np.zeros(0, np.int64)
        self._since: Ints = np.zeros((0, NUM_HOSTS), np.int64)

    def restart(self, which: Bools) -> None:
        """Empty the queues of these networks."""
        if len(which) != len(self._turn):
            self._turn = np.zeros(len(which), np.int64)
            self._since = np.zeros((len(which), NUM_HOSTS), np.int64)
        self._turn[which] = 0
        self._since[which] = 0

    def __call__(self, obs: Floats) -> Ints:
        """Actions (N,) for observations (N, 52 or more)."""
        if len(obs) != len(self._turn):
            self.restart(np.ones(len(obs), np.bool_))
        self._turn += 1
        new = (activity(obs) == 2) & (self._since == 0)
        new[:, HOST_NAMES.index("User0")] = False
        self._since = np.where(new, self._turn[:, None], self._since)
        waiting = np.where(self._since > 0, self._since, np.iinfo(np.int64).max)
        first = waiting.argmin(axis=1)
        rows = np.arange(len(obs))
        busy = self._since[rows, first] > 0
        self._since[rows[busy], first[busy]] = 0
        return np.where(busy, _RESTORE + first, MONITOR)


class Heuristic:
    """Cleans the most valuable flagged host; places decoys by a fixed list while all is quiet."""

    def __init__(self) -> None:
        self._placed = np.zeros(0, np.int64)
        self._analysed = np.zeros(0, np.int64)

    def restart(self, which: Bools) -> None:
        """Start the list of decoys again in these networks."""
        if len(which) != len(self._placed):
            self._placed = np.zeros(len(which), np.int64)
            self._analysed = np.full(len(which), -1, np.int64)
        self._placed[which] = 0
        self._analysed[which] = -1

    def __call__(self, obs: Floats) -> Ints:
        """Actions (N,) for observations (N, 52 or more)."""
        if len(obs) != len(self._placed):
            self.restart(np.ones(len(obs), np.bool_))
        flags = compromise(obs)[:, _WATCHED]
        first = (flags > 0).argmax(axis=1)
        flag = flags[np.arange(len(obs)), first]
        host = np.array(_WATCHED)[first]
        analyse = (flag == _UNKNOWN) & (self._analysed != host)
        actions = np.where(flag == _USER, _REMOVE + host, _RESTORE + host)
        actions = np.where(analyse, _ANALYSE + host, actions)
        quiet = flag == 0
        plan = np.array((*_PLAN, MONITOR))
        actions = np.where(quiet, plan[np.minimum(self._placed, len(_PLAN))], actions)
        self._placed += quiet
        self._analysed = np.where(analyse, host, -1)
        return actions
