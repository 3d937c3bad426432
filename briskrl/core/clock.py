"""The only place where progress is counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Clock:
    """How far a run has come; saved with every checkpoint."""

    env_steps: int = 0
    """Transitions collected, over all environments."""
    episodes: int = 0
    """Episodes finished."""
    updates: int = 0
    """Gradient updates done."""
    iterations: int = 0
    """Rounds of collecting and updating."""

    def state(self) -> dict[str, int]:
        """The counters as JSON."""
        return asdict(self)

    def load_state(self, state: dict[str, int]) -> None:
        """Continue from saved counters."""
        for name in self.state():
            setattr(self, name, int(state[name]))
