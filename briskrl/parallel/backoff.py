"""When to do without other threads."""

from __future__ import annotations

SHORTEST_RETREAT, LONGEST_RETREAT, RETREAT_GROWTH, RETREAT_SHRINKING = 2, 4096, 4, 1 / 16
"""In pieces of work; how much longer each is than the one before, and which part of that is taken
back by a piece that was done together."""
REMEMBERED = 31 / 32
"""How much the balance of pieces done together counts one piece later.

So about thirty of them count. What they save makes up for a core that is lost now and then, as on
an idle machine, but not for cores that others keep busy.
"""


class Backoff:
    """How long to do without other threads, while they cost more time than they save.

    A thread that has lost its core to another process is waited for. A retreat is the longer the
    more often there was a reason for one.
    """

    def __init__(self) -> None:
        self._left = 0
        self._next: float = SHORTEST_RETREAT
        self._balance = 0.0

    def goes_on(self) -> bool:
        """Whether the next piece of work is to be done alone."""
        self._left = max(0, self._left - 1)
        return self._left > 0

    def judge(self, took_s: float, work_s: float) -> None:
        """Tell how a piece of work went that was not done alone.

        Args:
            took_s: Seconds from its beginning to its end.
            work_s: Seconds that the threads have computed in it, about what one would take alone.
        """
        self._balance = REMEMBERED * self._balance + took_s - work_s
        if self._balance > 0:
            self._left = int(self._next)
            self._next = min(RETREAT_GROWTH * self._next, LONGEST_RETREAT)
            self._balance = 0.0
        else:
            self._next = max(SHORTEST_RETREAT, (1 - RETREAT_SHRINKING) * self._next)
