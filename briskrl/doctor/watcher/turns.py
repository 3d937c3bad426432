"""Turns: settings that the doctor changes for a moment while the script runs.

A turn begins and ends between an update and the next environment step, so that every turn consists
of whole rounds of collecting and learning.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from .allocations import Allocations
from .clocks import read_clocks
from .counts import Counts
from .env_steps import EnvSteps
from .switches import Switches

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 3.0
"""Longest wait for an update."""


class Turns:
    """Applies commands at the next boundary.

    Args:
        counts: Counters of the process.
        env_steps: Calls back before every step while a command waits.
        send: Writes records.
        allocations: Traces memory while the setting of this name is on.
    """

    def __init__(
        self,
        counts: Counts,
        env_steps: EnvSteps,
        send: Callable[[list[dict[str, Any]]], None],
        allocations: Allocations,
    ) -> None:
        self._counts = counts
        self._env_steps = env_steps
        self._send = send
        self._switches = Switches({"allocations": allocations.trace})
        self._command: dict[str, Any] | None = None
        self._updates = -1
        self._since = 0.0

    def take(self, command: dict[str, Any]) -> None:
        """Wait for the next boundary, then do what the command says."""
        self._command = command
        self._since = perf_counter()
        self._updates = -1
        self._env_steps.before_call = self._at_step

    def _at_step(self) -> None:
        before, self._updates = self._updates, self._counts.updates
        # Without updates to count, as in loops of NumPy, every step is a boundary.
        updated = before >= 0 and (before != self._updates or not self._updates)
        if updated or perf_counter() - self._since > PATIENCE_S:
            self._change()

    def check(self, now: float) -> None:
        """Do it without a boundary if the script takes no steps."""
        if self._command is not None and now - self._since > 2 * PATIENCE_S:
            self._change()

    def _change(self) -> None:
        command, self._command = self._command, None
        self._env_steps.before_call = None
        if command is None:
            return
        clocks = read_clocks()
        counts = self._counts.as_dict()
        why = self._switches.apply(command.get("switch", ""), command.get("value"))
        # What switching costs belongs to no turn.
        mark = {"mark": command["id"], "w": counts, "why": why, **clocks}
        self._send([{**mark, "from": read_clocks()}])

    def revert(self) -> None:
        """Undo what is switched."""
        self._switches.revert()
