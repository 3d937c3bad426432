"""How Gymnasium's observation spaces become one array per environment.

The rule: a Box of bytes stays bytes, every other number becomes float32. A Box of three dimensions
is an image and becomes planes (C, H, W); other boxes become a vector. Discrete becomes a one-hot
vector, MultiDiscrete one of them after another, MultiBinary its bits. Dict (in the order of its
keys) and Tuple become one vector, their members one after another. What this would distort or
cannot hold is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec
from briskrl.core.types import Array

Write = Callable[[Any, Array], None]
"""write(value, row): put one observation into a row of the buffers; ValueError if it is no member
of the space."""

UNBOUNDED = float(np.finfo(np.float32).max)
"""Bound of an unbounded space: JSON, which describes saved policies, has no infinity."""
LARGEST_ONE_HOT = 100_000
"""Choices of one Discrete space; more of them are no sensible input of a network."""


@dataclass(frozen=True, slots=True)
class Observer:
    """The array that stands for an observation space, and how it is written."""

    spec: ArraySpec
    write: Write


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A space that is written into a stretch of a vector."""

    size: int
    low: float
    high: float
    write: Write


def observe(space: Space[Any], told: str = "") -> Observer:
    """How observations of a space are stored.

    Args:
        space: The space of one environment.
        told: Where the space comes from, for the error.

    Raises:
        ConfigError: The space cannot be stored; the message names it and the reason.
    """
    if isinstance(space, spaces.Box) and (space.dtype == np.uint8 or len(space.shape) == 3):
        return _observe_array(space)
    leaf = _leaf(space, f"The observation space of {told}" if told else "The observation space")
    return Observer(ArraySpec.of((leaf.size,), np.float32, leaf.low, leaf.high), leaf.write)


def check_shape(value: Any, shape: tuple[int, ...]) -> Array:
    """The value as an array of exactly this shape.

    Raises:
        ValueError: It has another shape.
    """
    array = np.asarray(value)
    if array.shape != shape:
        raise ValueError(f"an observation of shape {array.shape} instead of {shape}")
    return array


def box_bounds(space: spaces.Box) -> tuple[float, float]:
    """The lowest and the highest bound of any element, as finite numbers."""
    low, high = float(np.min(space.low, initial=0)), float(np.max(space.high, initial=0))
    if space.low.size:
        low, high = float(space.low.min()), float(space.high.max())
    return max(low, -UNBOUNDED), min(high, UNBOUNDED)


def _observe_array(space: spaces.Box) -> Observer:
    """Bytes of any shape, and images of any dtype."""
    dtype = np.uint8 if space.dtype == np.uint8 else np.float32
    low, high = box_bounds(space)
    shape = space.shape
    if len(shape) != 3:
        write = _write_box(shape)
        return Observer(ArraySpec.of((prod(shape),), dtype, low, high), write)
    if not _channels_last(shape):
        return Observer(ArraySpec.of(shape, dtype, low, high), _write_planes(shape, (0, 1, 2)))
    planes = (shape[2], shape[0], shape[1])
    return Observer(ArraySpec.of(planes, dtype, low, high), _write_planes(shape, (2, 0, 1)))


def _channels_last(shape: tuple[int, ...]) -> bool:
    """Whether an image is (H, W, C): its smallest dimension comes last, or it is (H, W, 1..4)."""
    return shape[2] <= 4 or shape[2] < shape[0]


def _write_planes(shape: tuple[int, ...], order: tuple[int, int, int]) -> Write:
    def write(value: Any, row: Array) -> None:
        row[...] = check_shape(value, shape).transpose(order)

    return write


def _write_box(shape: tuple[int, ...]) -> Write:
    if len(shape) == 1:

        def write(value: Any, row: Array) -> None:
            if type(value) is not np.ndarray or value.shape != shape:
                value = check_shape(value, shape)
            row[:] = value

        return write

    def write_flat(value: Any, row: Array) -> None:
        row[:] = check_shape(value, shape).reshape(-1)

    return write_flat


def _leaf(space: Space[Any], told: str) -> _Leaf:
    if isinstance(space, spaces.Box):
        return _box_leaf(space, told)
    if isinstance(space, spaces.Discrete):
        return _discrete_leaf(space, told)
    if isinstance(space, spaces.MultiDiscrete):
        return _multi_discrete_leaf(space)
    if isinstance(space, spaces.MultiBinary):
        return _Leaf(prod(space.shape), 0.0, 1.0, _write_box(space.shape))
    if isinstance(space, spaces.Dict):
        return _joined((key, _leaf(part, f"{told}[{key!r}]")) for key, part in space.items())
    if isinstance(space, spaces.Tuple):
        return _joined((k, _leaf(part, f"{told}[{k}]")) for k, part in enumerate(space.spaces))
    raise ConfigError(
        f"{told} is {_name(space)}, which has no fixed number of numbers. Wrap the environment so "
        "that it observes Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of these."
    )


def _name(space: Space[Any]) -> str:
    kind = type(space).__name__
    return f"a {kind} space"


def _box_leaf(space: spaces.Box, told: str) -> _Leaf:
    if len(space.shape) >= 3 and space.dtype == np.uint8:
        raise ConfigError(
            f"{told} is an image {space.shape} inside a Dict or Tuple; put beside other numbers in "
            "one vector it would lose its rows and columns. Wrap the environment so that the image "
            "is the whole observation (gymnasium.wrappers.FilterObservation), or flatten it "
            "yourself."
        )
    low, high = box_bounds(space)
    return _Leaf(prod(space.shape), low, high, _write_box(space.shape))


def _discrete_leaf(space: spaces.Discrete, told: str) -> _Leaf:
    choices, start = int(space.n), int(space.start)
    if choices > LARGEST_ONE_HOT:
        raise ConfigError(
            f"{told} is Discrete({choices}), too many choices for a one-hot vector (at most "
            f"{LARGEST_ONE_HOT}). Wrap the environment so that it observes numbers."
        )

    def write(value: Any, row: Array) -> None:
        choice = int(value) - start
        if not 0 <= choice < choices:
            raise ValueError(f"the observation {value!r}, which is not in {space}")
        row[:] = 0
        row[choice] = 1

    return _Leaf(choices, 0.0, 1.0, write)


def _multi_discrete_leaf(space: spaces.MultiDiscrete) -> _Leaf:
    counts = np.asarray(space.nvec, np.int64).reshape(-1)
    starts = np.asarray(space.start, np.int64).reshape(-1)
    places = np.cumsum(counts) - counts
    shape = space.shape

    def write(value: Any, row: Array) -> None:
        choices = check_shape(value, shape).reshape(-1) - starts
        if (choices < 0).any() or (choices >= counts).any():
            raise ValueError(f"the observation {value!r}, which is not in {space}")
        row[:] = 0
        row[places + choices] = 1

    return _Leaf(int(counts.sum()), 0.0, 1.0, write)


def _joined(members: Iterable[tuple[Any, _Leaf]]) -> _Leaf:
    """Members of a Dict or Tuple, written one after another."""
    parts: list[tuple[Any, slice, Write]] = []
    size, low, high = 0, 0.0, 0.0
    for key, leaf in members:
        parts.append((key, slice(size, size + leaf.size), leaf.write))
        size += leaf.size
        low, high = min(low, leaf.low), max(high, leaf.high)

    def write(value: Any, row: Array) -> None:
        for key, place, write_part in parts:
            try:
                part = value[key]
            except (KeyError, IndexError, TypeError):
                raise ValueError(f"an observation without {key!r}") from None
            write_part(part, row[place])

    return _Leaf(size, low, high, write)
