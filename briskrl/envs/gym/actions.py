"""How the trainer's actions become members of Gymnasium's action spaces.

Discrete counts from its start. MultiDiscrete and MultiBinary are several choices at once, or one
choice among all combinations. A Box is a vector of its elements, clipped to the bounds of each one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ActionSpec, BoxSpec, DiscreteSpec, MultiDiscreteSpec
from briskrl.core.types import Array
from briskrl.envs.gym.spaces import box_bounds

Read = Callable[[Any], Any]
"""read(row): the environment's own action for one row of the trainer's; never a view of it."""

MOST_COMBINATIONS = 100_000
"""Combinations that one joint choice may offer."""


@dataclass(frozen=True, slots=True)
class Actor:
    """What the trainer chooses among, and how its choice is handed over."""

    spec: ActionSpec
    read: Read | None
    """None if the choice is handed over as it is."""


def act(space: Space[Any], *, joint: bool, told: str = "") -> Actor:
    """How a trainer acts in an action space.

    Args:
        space: The space of one environment.
        joint: Offer several choices as one among all combinations.
        told: Where the space comes from, for the error.

    Raises:
        ConfigError: The space has no such form; the message names it and the reason.
    """
    if isinstance(space, spaces.Discrete):
        return _discrete(space)
    if isinstance(space, spaces.MultiDiscrete):
        counts = np.asarray(space.nvec, np.int64)
        return _several(counts, np.asarray(space.start, np.int64), space, joint=joint)
    if isinstance(space, spaces.MultiBinary):
        return _several(np.full(space.shape, 2), np.zeros(space.shape, int), space, joint=joint)
    of = f" of {told}" if told else ""
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return _box(space)
    if isinstance(space, spaces.Box):
        raise ConfigError(
            f"The action space{of} is a Box of {space.dtype}: neither choices nor real numbers. "
            "Wrap the environment so that it takes MultiDiscrete or a Box of floats."
        )
    raise ConfigError(
        f"The action space{of} is a {type(space).__name__} space, which no algorithm here can act "
        "in. Wrap the environment so that it takes Discrete, MultiDiscrete, MultiBinary or Box."
    )


def _discrete(space: spaces.Discrete) -> Actor:
    start = np.int64(space.start)
    read = None if start == 0 else start.__add__
    return Actor(DiscreteSpec(int(space.n)), read)


def _several(counts: Array, start: Array, space: Space[Any], *, joint: bool) -> Actor:
    shape, dtype = counts.shape, space.dtype
    nvec = tuple(counts.reshape(-1).tolist())
    if not joint:

        def read(row: Array) -> Array:
            return (row.reshape(shape) + start).astype(dtype, copy=False)

        return Actor(MultiDiscreteSpec(nvec), read)
    combinations = prod(nvec)
    if combinations > MOST_COMBINATIONS:
        raise ConfigError(
            f"joint_actions makes {combinations} combinations of {space}, more than "
            f"{MOST_COMBINATIONS}. Leave it off and use an algorithm that makes several choices."
        )

    def read_joint(choice: Any) -> Array:
        row = np.array(np.unravel_index(int(choice), nvec))
        return (row.reshape(shape) + start).astype(dtype, copy=False)

    return Actor(DiscreteSpec(combinations), read_joint)


def _box(space: spaces.Box) -> Actor:
    shape, dtype = space.shape, space.dtype
    low, high = space.low.reshape(-1), space.high.reshape(-1)

    def read(row: Array) -> Array:
        clipped = np.minimum(np.maximum(row, low), high)
        return clipped.astype(dtype, copy=False).reshape(shape)

    return Actor(BoxSpec((prod(shape),), *box_bounds(space)), read)
