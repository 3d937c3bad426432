"""Doing without something optional, for longer and longer while it does not pay.

Other threads, and spinning instead of sleeping, save time on an idle machine and cost time while
other processes keep the cores busy.
"""

from __future__ import annotations

SHORTEST_RETREAT, LONGEST_RETREAT, RETREAT_GROWTH, RETREAT_SHRINKING = 2, 4096, 4, 1 / 16
"""Of a TeamBackoff, in pieces of work."""
REMEMBERED = 31 / 32
"""Weight of a piece of work in the balance of time, one piece later.

So about thirty pieces count. What they save makes up for a core that is lost now and then, as on
an idle machine, but not for cores that other processes keep busy.
"""
SPIN_S = 100e-6
"""How long to spin: longer than a trainer takes from one step to the next of cheap environments.

Measured with 16 CartPoles in two workers on two cores, 15 turns each: 62 k steps a second in the
median, against 49 k without spinning.
"""
LONGEST_REST = 257
"""Of a SpinBackoff, in waits."""
FAR_TOO_LONG = 4
"""Times the planned duration of a spin: another process has had the core."""


class Backoff:
    """How many times to do without something after it failed.

    Args:
        shortest: Length of the first interval.
        longest: Length of the longest one.
        growth: Factor from one interval to the next.
        shrinking: Part of an interval that a success takes back.
    """

    __slots__ = ("_growth", "_left", "_longest", "_next", "_shortest", "_shrinking")

    def __init__(self, *, shortest: int, longest: int, growth: float, shrinking: float) -> None:
        self._shortest, self._longest = shortest, longest
        self._growth, self._shrinking = growth, shrinking
        self._left = 0
        self._next: float = shortest

    def skips(self) -> bool:
        """Count one time; returns whether to do without."""
        self._left = max(0, self._left - 1)
        return self._left > 0

    def fail(self, *, badly: bool = False) -> None:
        """Begin an interval, the longest one at once if it failed badly."""
        if badly:
            self._next = self._longest
        self._left = int(self._next)
        self._next = min(self._growth * self._next, self._longest)

    def succeed(self) -> None:
        """Make the next interval shorter."""
        self._next = max(self._shortest, (1 - self._shrinking) * self._next)


class TeamBackoff(Backoff):
    """Whether to do without other threads, while they cost more time than they save.

    A thread that has lost its core to another process is waited for.
    """

    __slots__ = ("_balance",)

    def __init__(self) -> None:
        super().__init__(
            shortest=SHORTEST_RETREAT,
            longest=LONGEST_RETREAT,
            growth=RETREAT_GROWTH,
            shrinking=RETREAT_SHRINKING,
        )
        self._balance = 0.0

    def judge(self, took_s: float, work_s: float) -> None:
        """Report a piece of work that was not done alone.

        Args:
            took_s: Seconds from its beginning to its end.
            work_s: Seconds that the threads have computed in it, about what one would take alone.
        """
        self._balance = REMEMBERED * self._balance + took_s - work_s
        if self._balance > 0:
            self.fail()
            self._balance = 0.0
        else:
            self.succeed()


class SpinBackoff(Backoff):
    """How long to spin before sleeping, and whether to spin at all.

    Each look yields the core to other threads. On a busy machine one of them may keep it for
    milliseconds, so that spinning costs far more than sleeping and being woken.
    """

    __slots__ = ("_spin_s",)

    def __init__(self, spin_s: float) -> None:
        self._spin_s = spin_s
        super().__init__(shortest=2, longest=LONGEST_REST, growth=2, shrinking=1 / 2)

    def spin_s(self) -> float:
        """Seconds to spin this time; 0 for not at all."""
        return 0.0 if self.skips() else self._spin_s

    def judge(self, spent_s: float, *, found: bool) -> None:
        """Report how long a spin took, and whether it saw what it waited for."""
        if spent_s > FAR_TOO_LONG * self._spin_s:
            self.fail(badly=True)
        elif found:
            self.succeed()
        else:
            self.fail()
