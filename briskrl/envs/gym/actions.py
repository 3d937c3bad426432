"""Convert the trainer's actions to members of Gymnasium action spaces.

Discrete actions are shifted by the start of the space. MultiDiscrete and MultiBinary spaces become
several discrete actions, or one discrete action over all combinations. A Box becomes a vector whose
elements are clipped to their bounds.
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

Convert = Callable[[Any], Any]
"""convert(row): the action for the environment, from one row of the batch; never a view of it."""

MAX_COMBINATIONS = 100_000
"""Limit of combinations in one joint action."""


@dataclass(frozen=True, slots=True)
class ActionConverter:
    """The action space that the trainer sees, and the conversion to the environment's own."""

    spec: ActionSpec
    convert: Convert | None
    """None if actions are passed on unchanged."""


def make_action_converter(space: Space[Any], *, joint: bool, source: str = "") -> ActionConverter:
    """A converter for an action space.

    Args:
        space: The space of one environment.
        joint: Turn a MultiDiscrete or MultiBinary space into one discrete action over all
            combinations.
        source: Where the space comes from, for the error message.

    Raises:
        ConfigError: The space is not supported; the message names it and the reason.
    """
    if isinstance(space, spaces.Discrete):
        return _discrete(space)
    if isinstance(space, spaces.MultiDiscrete):
        counts = np.asarray(space.nvec, np.int64)
        return _multi_discrete(counts, np.asarray(space.start, np.int64), space, joint=joint)
    if isinstance(space, spaces.MultiBinary):
        return _multi_discrete(
            np.full(space.shape, 2), np.zeros(space.shape, int), space, joint=joint
        )
    of = f" of {source}" if source else ""
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return _box(space)
    if isinstance(space, spaces.Box):
        raise ConfigError(
            f"The action space{of} is a Box of {space.dtype}, neither discrete nor floating-point. "
            "Wrap the environment so that it takes MultiDiscrete or a Box of floats."
        )
    raise ConfigError(
        f"The action space{of} is a {type(space).__name__} space, which no algorithm here can act "
        "in. Wrap the environment so that it takes Discrete, MultiDiscrete, MultiBinary or Box."
    )


def _discrete(space: spaces.Discrete) -> ActionConverter:
    start = np.int64(space.start)
    convert = None if start == 0 else start.__add__
    return ActionConverter(DiscreteSpec(int(space.n)), convert)


def _multi_discrete(
    counts: Array, start: Array, space: Space[Any], *, joint: bool
) -> ActionConverter:
    shape, dtype = counts.shape, space.dtype
    nvec = tuple(counts.reshape(-1).tolist())
    if not joint:

        def convert(row: Array) -> Array:
            return (row.reshape(shape) + start).astype(dtype, copy=False)

        return ActionConverter(MultiDiscreteSpec(nvec), convert)
    combinations = prod(nvec)
    if combinations > MAX_COMBINATIONS:
        raise ConfigError(
            f"joint_actions makes {combinations} combinations of {space}, more than "
            f"{MAX_COMBINATIONS}. Leave it off and use an algorithm for MultiDiscrete actions."
        )

    def convert_joint(action: Any) -> Array:
        row = np.array(np.unravel_index(int(action), nvec))
        return (row.reshape(shape) + start).astype(dtype, copy=False)

    return ActionConverter(DiscreteSpec(combinations), convert_joint)


def _box(space: spaces.Box) -> ActionConverter:
    shape, dtype = space.shape, space.dtype
    low, high = space.low.reshape(-1), space.high.reshape(-1)

    def convert(row: Array) -> Array:
        clipped = np.minimum(np.maximum(row, low), high)
        return clipped.astype(dtype, copy=False).reshape(shape)

    return ActionConverter(BoxSpec((prod(shape),), *box_bounds(space)), convert)
