"""How many updates are due: exact bookkeeping, independent of the number of environments."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

from briskrl.core.registry import Registry


class UpdateSchedule(Protocol):
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


class RatioSchedule:
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


class RolloutSchedule:
    """All updates at once, whenever another rollout's worth of transitions has been collected.

    With `reuse` the rollouts before it are learnt from as well, as soon as there are any.
    """

    starts = 0

    def __init__(self, *, rollout_steps: int, updates: int, reuse: int) -> None:
        self._rollout_steps = rollout_steps
        self._updates = updates
        self._reuse = reuse
        self._collected = 0

    @property
    def earning(self) -> int:
        """All transitions count."""
        return self._collected

    def due(self, collected: int) -> int:
        """The updates of a full rollout, or 0.

        Raises:
            ValueError: More has been collected than fits into the rollout.
        """
        before = self._collected // self._rollout_steps
        self._collected += collected
        full, rest = divmod(self._collected, self._rollout_steps)
        if full == before:
            return 0
        if rest:
            raise ValueError(f"{rest} transitions have run over the end of a rollout.")
        return self._updates * min(full, 1 + self._reuse)

    def state(self) -> dict[str, int]:
        """Transitions counted."""
        return {"collected": self._collected}

    def load_state(self, state: dict[str, int]) -> None:
        """Continue the saved bookkeeping."""
        self._collected = int(state["collected"])


SCHEDULES: Registry[Callable[..., UpdateSchedule]] = Registry("cadence")
SCHEDULES.add("ratio", RatioSchedule)
SCHEDULES.add("on-full", RolloutSchedule)
