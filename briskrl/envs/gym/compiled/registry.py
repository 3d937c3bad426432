"""What a compiled version of an environment of Gymnasium is made of, and the table of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.registry import load_object
from briskrl.envs.gym.env_factory import EnvRecipe, GymEnv

_HERE = "briskrl.envs.gym.compiled"
STAND_INS = {
    "gymnasium.envs.classic_control.cartpole:CartPoleEnv": f"{_HERE}.cartpole:CARTPOLE",
}
"""Addresses by the entry points that Gymnasium registers; whatever the ids are, and the limits."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """A compiled version of an environment."""

    stands_for: type[GymEnv]
    """The class of which it is one."""
    step: Callable[..., None]
    """What `step_of` gave."""
    share: Callable[..., None]
    """What `share_of(step)` gave."""
    reach: tuple[float, ...]
    """How far from 0 each number of a state may be where the two are compared."""
    settings: Callable[[Any], tuple[int, ...]]
    """settings(env): what an instance was made with, as the kernel reads it."""
    read: Callable[[Any], NDArray[np.float64]]
    """read(env): the numbers of an instance."""
    write: Callable[[Any, NDArray[np.float64]], None]
    """write(env, state): put an instance within an episode, with these numbers."""

    @property
    def num_state(self) -> int:
        """How many numbers a state has."""
        return len(self.reach)


def find(recipe: EnvRecipe) -> StandIn | None:
    """The compiled version of what a recipe makes, if there is one; nothing is compared yet."""
    entry = recipe.entry_point
    name = entry if isinstance(entry, str) else _address(entry)
    if name not in STAND_INS:
        return None
    found: StandIn = load_object(STAND_INS[name])
    return found


def _address(entry: Any) -> str:
    return f"{getattr(entry, '__module__', '')}:{getattr(entry, '__qualname__', '')}"
