"""The counters of a run's progress."""

from __future__ import annotations

from dataclasses import dataclass

from briskrl.core.state_checks import whole

SAVED_COUNTERS = ("env_steps", "episodes", "updates", "iterations")


@dataclass(slots=True)
class Counters:
    """Progress of a run; the counters are saved with every checkpoint, the budget is not."""

    env_steps: int = 0
    """Transitions collected, over all environments."""
    episodes: int = 0
    """Episodes finished."""
    updates: int = 0
    """Gradient updates done."""
    iterations: int = 0
    """Rounds of collecting and updating."""
    total_steps: int | None = None
    """The budget of transitions, if there is one."""
    total_episodes: int | None = None
    """The budget of episodes, if there is one."""

    @property
    def fraction(self) -> float:
        """Used share of the budget, 0 to 1; the larger one if there are two budgets."""
        steps = self.env_steps / self.total_steps if self.total_steps else 0.0
        episodes = self.episodes / self.total_episodes if self.total_episodes else 0.0
        return min(1.0, max(steps, episodes))

    def state(self) -> dict[str, int]:
        """The counters as JSON."""
        return {name: getattr(self, name) for name in SAVED_COUNTERS}

    def load_state(self, state: dict[str, int]) -> None:
        """Continue from saved counters.

        Raises:
            InvalidStateError: They are not whole numbers.
        """
        for name in SAVED_COUNTERS:
            setattr(self, name, whole(state, name))
