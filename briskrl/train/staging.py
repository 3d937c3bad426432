"""Rows to step through for memories that keep copies of what they are given."""

from __future__ import annotations

from typing import Protocol

from briskrl.core.spec import EnvSpec
from briskrl.core.types import Decision, Row, StepBuffers
from briskrl.memory.base import Memory


class Rows(Protocol):
    """Hands out the place of one vector step after another."""

    def row(self) -> Row:
        """Where the next step goes; its `before` holds what to act on."""
        ...

    def advance(self) -> None:
        """The row has been written; its `after` is the next one's `before`."""
        ...


class Staging:
    """Two sets of step buffers that take turns, each step copied into the memory.

    What was acted on stays readable while the environments write.
    """

    def __init__(self, memory: Memory, spec: EnvSpec, num_envs: int) -> None:
        self._memory = memory
        first, second = (StepBuffers.allocate(spec, num_envs) for _ in range(2))
        decision = Decision.allocate(spec, num_envs)
        self._row = Row(first, decision, second)
        self._other = Row(second, decision, first)

    def row(self) -> Row:
        """Where the next step goes."""
        return self._row

    def advance(self) -> None:
        """Copy the step into the memory and turn round."""
        row = self._row
        self._memory.write(row.before, row.decision, row.after)
        self._row, self._other = self._other, row
