"""Settings of `brisk tune`, as data; imports nothing heavy."""

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
    """Seconds to spend, all in all; a search that is sure of its answer ends sooner."""
    objective: Objective = "wall"
    """What to get most steps out of: a second of time, or a second of CPU time."""
    keep: tuple[Axis, ...] = ()
    """Settings to leave as they are."""
    also: tuple[Extra, ...] = ()
    """Settings to tune although learning changes with them: minibatch (its size), num_envs (without
    bounds, the rollout of policy gradients growing with it), vector (as a backend)."""
    out: str | None = None
    """File to write the tuned settings to, ending in .toml; by default named after the target."""
    force: bool = False
    """Replace the file if it exists."""
    fresh: bool = False
    """Search anew, whatever is remembered of this target on this machine."""
