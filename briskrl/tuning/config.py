"""Settings of `brisk tune`; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

Axis = Literal["num_envs", "threads", "engine", "backend", "overlap"]
Extra = Literal["minibatch", "num_envs", "vector"]
Objective = Literal["wall", "cpu"]


@dataclass(frozen=True, slots=True)
class TuneConfig:
    """How to tune."""

    budget: Annotated[float, Meta(gt=0, le=86_400)] = 120.0
    """Time budget in seconds; a search with a clear result ends sooner."""
    objective: Objective = "wall"
    """What to maximize: steps per second (wall) or steps per CPU second (cpu)."""
    keep: tuple[Axis, ...] = ()
    """Settings to leave unchanged."""
    also: tuple[Extra, ...] = ()
    """Settings to tune although they change learning: minibatch (its size), num_envs (without
    bounds; the rollout of PPO grows with it), vector (as a backend)."""
    out: str | None = None
    """File to write the tuned settings to, ending in .toml; by default named after the target."""
    force: bool = False
    """Replace the file if it exists."""
    fresh: bool = False
    """Search again, ignoring cached results of this machine."""
