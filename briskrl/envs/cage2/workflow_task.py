"""CAGE-2 as a task with workflows: kinds of hosts that red can hold and blue can repair."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.types import Array, Bools, Ints
from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.config import Cage2Config
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.envs.cage2.kernels import layout as k
from briskrl.envs.cage2.layout import Layout

HOSTS_OF = {
    "defender": ("Defender",),
    "enterprise": ("Enterprise0", "Enterprise1", "Enterprise2"),
    "op_server": ("Op_Server0",),
    "op_host": ("Op_Host0", "Op_Host1", "Op_Host2"),
    "user": ("User1", "User2", "User3", "User4"),
}
"""Hosts of each category, in the canonical order. User0 is red's home and belongs to none."""
NAMED = {
    "critical-first": ("defender", "op_server", "enterprise", "op_host", "user"),
    "enterprise-first": ("enterprise", "defender", "op_server", "op_host", "user"),
    "user-first": ("user", "defender", "enterprise", "op_server", "op_host"),
    "operations-first": ("op_server", "op_host", "defender", "enterprise", "user"),
    "balanced": ("defender", "enterprise", "op_server", "user", "op_host"),
    "outside-in": ("user", "op_host", "enterprise", "op_server", "defender"),
}
"""Well-known workflows."""


class Cage2Task:
    """Open: red holds a host of the category. Addressed: that of a host removed or restored.

    With the reduced action set, categories whose hosts it cannot repair are left out.

    Args:
        config: Settings of the environments.
    """

    def __init__(self, config: Cage2Config) -> None:
        layout = Layout(config)
        fixable = {
            name: tuple(host for host in hosts if layout.is_fixable(host))
            for name, hosts in HOSTS_OF.items()
        }
        self.hosts = {name: hosts for name, hosts in fixable.items() if hosts}
        """Repairable hosts by category."""
        self.categories = tuple(self.hosts)
        self.named = {name: self._order(names) for name, names in NAMED.items()}
        self._restore = _restores(config)
        self._members = np.array(
            [[host in hosts for host in s.HOST_NAMES] for hosts in self.hosts.values()]
        )

    def bind(self, venv: Any) -> None:
        """See WorkflowTask.

        Raises:
            ConfigError: They are not CAGE-2 environments.
        """
        if not isinstance(venv, Cage2VecEnv):
            raise ConfigError(f"The task cage2 is for CAGE-2, not for {type(venv).__name__}.")
        self._venv = venv
        noted = venv.track_incidents(list(self.hosts.values()))
        self._open = noted[:, : len(self.categories)].view(np.bool_)
        self._addressed = noted[:, 7].view(np.int8)

    def open_mask(self) -> Bools:
        """See WorkflowTask."""
        return self._open

    def addressed(self, actions: Array) -> NDArray[np.int8]:
        """See WorkflowTask; an action that was replaced by sleep works on nothing."""
        return self._addressed

    def fix(self, required: Ints, rng: np.random.Generator) -> Ints:
        """See Oracle: restores a random held host of the category, sleeps if there is none."""
        held = self._venv.truth().access > 0
        targets = held & self._members[required] & (required >= 0)[:, None]
        # The largest of independent uniform numbers belongs to each target equally often.
        chosen = np.where(targets, rng.random(targets.shape), -1.0).argmax(axis=1)
        return np.where(targets.any(axis=1), self._restore[chosen], s.SLEEP)

    def _order(self, names: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self.categories.index(name) for name in names if name in self.categories)


def _restores(config: Cage2Config) -> Ints:
    """Index of the action that restores each host; 0 where there is none."""
    names = s.REDUCED_NAMES if config.actions == "reduced" else s.ACTION_NAMES
    wanted = [f"Restore {host}" for host in s.HOST_NAMES]
    found = np.array([names.index(name) if name in names else 0 for name in wanted])
    assert len(found) == k.NUM_HOSTS
    return found
