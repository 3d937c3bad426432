"""How many updates are due: exact bookkeeping, independent of the number of environments."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from briskrl.core.registry import Registry


class Cadence(Protocol):
    """Turns collected transitions into updates due."""

    starts: int
    """Transitions collected before any count towards updates."""

    @property
    def earning(self) -> int:
        """Transitions so far that counted towards updates."""
        ...

    def due(self, collected: int) -> int:
        """Whole updates to do now, after `collected` more transitions."""
        ...

    def state(self) -> dict[str, int]:
        """The bookkeeping as JSON."""
        ...

    def load_state(self, state: dict[str, int]) -> None:
        """Continue the saved bookkeeping."""
        ...


class Ratio:
    """A fixed number of updates per transition.

    After k transitions past the first `starts`, exactly floor(k * ratio) updates have been issued,
    however the transitions arrived. The ratio is taken as the decimal number the user wrote, so
    0.004 is one update in 250 transitions and not the binary fraction nearest to it.
    """

    def __init__(self, *, updates_per_step: float, starts: int) -> None:
        self.ratio = Fraction(repr(updates_per_step))
        self.starts = starts
        self._collected = 0
        self._issued = 0

    @property
    def earning(self) -> int:
        """Transitions collected past `starts`."""
        return max(0, self._collected - self.starts)

    def due(self, collected: int) -> int:
        """Whole updates to do now; the fraction is carried over."""
        self._collected += collected
        total = self.earning * self.ratio.numerator // self.ratio.denominator
        new = total - self._issued
        self._issued = total
        return new

    def state(self) -> dict[str, int]:
        """Transitions counted and updates issued."""
        return {"collected": self._collected, "issued": self._issued}

    def load_state(self, state: dict[str, int]) -> None:
        """Continue the saved bookkeeping; a resume never fires a burst."""
        self._collected = int(state["collected"])
        self._issued = int(state["issued"])


CADENCES: Registry[type[Ratio]] = Registry("cadence")
CADENCES.add("ratio", Ratio)
