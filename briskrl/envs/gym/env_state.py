"""What is saved of one environment: the same text from every backend, so that any can go on."""

from __future__ import annotations

import json
from dataclasses import dataclass

from briskrl.core.types import JSON
from briskrl.envs.gym import snapshot


@dataclass(frozen=True, slots=True)
class Record:
    """One environment between two steps."""

    env: JSON | None
    """What `snapshot.take` gave; None if its state cannot be saved."""
    seed: int
    """What it was last seeded with."""
    steps: int
    """Steps of the episode under way."""
    returns: float
    """Sum of its rewards."""
    held: bool
    """Whether it has ended and stays so."""

    def as_text(self) -> str:
        """The record as JSON; floats keep every bit."""
        return snapshot.as_text(
            {
                "env": self.env,
                "seed": self.seed,
                "steps": self.steps,
                "return": self.returns,
                "held": self.held,
            }
        )

    @classmethod
    def of_text(cls, text: str) -> Record:
        """The record that `as_text` wrote."""
        told = json.loads(text)
        return cls(told["env"], told["seed"], told["steps"], told["return"], told["held"])
