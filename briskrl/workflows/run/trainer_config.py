"""How training under workflows goes on and ends; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from briskrl.workflows.run.stop_config import StopConfig

Draw = Literal["fixed", "uniform", "focused"]
"""Which workflow a new episode gets: always the same one, any, or in the second half of training
half of the time one of those that look best."""


@dataclass(frozen=True, slots=True)
class Course:
    """How training goes on and ends."""

    cap: int
    """Episodes to train at most."""
    stop: StopConfig = field(default_factory=StopConfig)
    threshold: float = 0.95
    """Compliance to reach."""
    draw: Draw = "fixed"
    cap_is_budget: bool = False
