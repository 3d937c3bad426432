"""How many updates are due: exact bookkeeping, independent of the number of environments."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from briskrl.core.state_checks import whole


class UpdateSchedule(Protocol):
    """Turns collected transitions into updates due."""

    learning_starts: int
    """Transitions collected before any count towards updates."""

    @property
    def counted_steps(self) -> int:
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

    After k transitions past the first `learning_starts`, exactly floor(k * ratio) updates have been
    issued, however the transitions arrived. The ratio is taken as the decimal number the user
    wrote, so 0.004 is one update in 250 transitions and not the binary fraction nearest to it.
    """

    def __init__(self, *, updates_per_step: float, learning_starts: int) -> None:
        self.ratio = Fraction(repr(updates_per_step))
        self.learning_starts = learning_starts
        self._collected = 0
        self._issued = 0

    @property
    def counted_steps(self) -> int:
        """Transitions collected past `learning_starts`."""
        return max(0, self._collected - self.learning_starts)

    @property
    def _total(self) -> int:
        """Updates that all transitions so far are worth."""
        return self.counted_steps * self.ratio.numerator // self.ratio.denominator

    def due(self, collected: int) -> int:
        """Whole updates to do now; the fraction is carried over."""
        self._collected += collected
        new = self._total - self._issued
        self._issued += new
        return new

    def state(self) -> dict[str, int]:
        """Transitions counted and updates issued."""
        return {"collected": self._collected, "issued": self._issued}

    def load_state(self, state: dict[str, int]) -> None:
        """Continue the saved bookkeeping; a resume never issues a burst of updates.

        Raises:
            InvalidStateError: It is not that of such a schedule.
        """
        self._collected = whole(state, "collected")
        # Not the saved number: with another ratio, all updates that differ would be due at once.
        self._issued = self._total


class RolloutSchedule:
    """All updates of a rollout at once, whenever its transitions have been collected.

    With `reuse` the updates on up to that many older rollouts are added, as soon as there are any.
    """

    learning_starts = 0

    def __init__(self, *, rollout_steps: int, updates: int, reuse: int) -> None:
        self._rollout_steps = rollout_steps
        self._updates = updates
        self._reuse = reuse
        self._collected = 0

    @property
    def counted_steps(self) -> int:
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
            raise ValueError(f"{rest} transitions were collected past the end of the rollout.")
        return self._updates * min(full, 1 + self._reuse)

    def state(self) -> dict[str, int]:
        """Transitions counted."""
        return {"collected": self._collected}

    def load_state(self, state: dict[str, int]) -> None:
        """Continue the saved bookkeeping.

        Raises:
            InvalidStateError: It is not that of such a schedule.
        """
        self._collected = whole(state, "collected")
