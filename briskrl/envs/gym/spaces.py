"""Convert observations of Gymnasium spaces to one array per environment.

A uint8 Box stays uint8; every other number becomes float32. A Box with three dimensions is an image
and becomes planes (C, H, W); other boxes become a vector. Discrete becomes a one-hot vector,
MultiDiscrete a concatenation of one-hot vectors, MultiBinary its bits. Dict (in the order of its
keys) and Tuple become one vector, the concatenation of their members; images of bytes among them
keep their shape in the spec, so that networks can treat them as images. Texts among them are left
out. Other spaces, and those that this would distort, raise a ConfigError with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec, ImagePart
from briskrl.core.types import Array
from briskrl.envs.gym.returned import check_numbers, show

Write = Callable[[Any, Array], None]
"""write(value, row): write one observation to a row of the batch; ValueError if the observation is
not in the space."""

Check = Callable[[Any, tuple[int, ...]], Array]
"""check(value, shape): the value as an array of this shape; ValueError if it is not one."""

UNBOUNDED = float(np.finfo(np.float32).max)
"""Bound of an unbounded space: saved policies describe their spaces as JSON, without infinity."""
MAX_ONE_HOT = 100_000
"""Limit of one-hot elements for one Discrete space; more make no sensible network input."""


@dataclass(frozen=True, slots=True)
class ObsConverter:
    """The array layout of an observation space, and the conversion to it."""

    spec: ArraySpec
    write: Write
    left_out: tuple[str, ...] = ()
    """Names of members of the space that are not part of the array."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A space that is written to a slice of a vector."""

    size: int
    low: float
    high: float
    write: Write
    images: tuple[ImagePart, ...] = ()
    holds_bytes: bool = False
    """Whether all its numbers fit into uint8."""
    left_out: tuple[str, ...] = ()


def make_obs_converter(space: Space[Any], source: str = "") -> ObsConverter:
    """A converter for an observation space.

    Args:
        space: The space of one environment.
        source: Where the space comes from, for the error message.

    Raises:
        ConfigError: The space is not supported; the message names it and the reason.
    """
    if isinstance(space, spaces.Box) and (space.dtype == np.uint8 or len(space.shape) == 3):
        return _array_converter(space)
    leaf = _leaf(space, f"The observation space of {source}" if source else "The observation space")
    # Bytes are kept only beside images: other vectors were always float32.
    dtype = np.uint8 if leaf.images and leaf.holds_bytes else np.float32
    spec = ArraySpec.of((leaf.size,), dtype, leaf.low, leaf.high, leaf.images)
    return ObsConverter(spec, leaf.write, leaf.left_out)


def check_shape(value: Any, shape: tuple[int, ...]) -> Array:
    """The value as an array of real numbers of exactly this shape.

    Raises:
        ValueError: It has another shape, or holds something else.
    """
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"the observation {show(value)}, which is not an array") from None
    if array.shape != shape:
        raise ValueError(f"an observation of shape {array.shape} instead of {shape}")
    check_numbers(array)
    return array


def check_bytes(value: Any, shape: tuple[int, ...]) -> Array:
    """The value as an array of this shape whose numbers fit into uint8.

    Raises:
        ValueError: It has another shape or other numbers.
    """
    array = check_shape(value, shape)
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind == "f" or (array.size and (array.min() < 0 or array.max() > 255)):
        raise ValueError(f"an observation of {array.dtype}, whose numbers do not fit into uint8")
    return array


def box_bounds(space: spaces.Box) -> tuple[float, float]:
    """The lowest and the highest bound over all elements, as finite numbers."""
    low, high = float(np.min(space.low, initial=0)), float(np.max(space.high, initial=0))
    if space.low.size:
        low, high = float(space.low.min()), float(space.high.max())
    return max(low, -UNBOUNDED), min(high, UNBOUNDED)


def _array_converter(space: spaces.Box) -> ObsConverter:
    """A converter for uint8 arrays of any shape and images of any dtype."""
    dtype = np.uint8 if space.dtype == np.uint8 else np.float32
    low, high = box_bounds(space)
    shape = space.shape
    check = check_bytes if dtype == np.uint8 else check_shape
    if len(shape) != 3:
        write = _write_box(shape, space.dtype, check)
        return ObsConverter(ArraySpec.of((prod(shape),), dtype, low, high), write)
    if not _channels_last(shape):
        write = _write_planes(shape, check, (0, 1, 2))
        return ObsConverter(_planes_spec(shape, dtype, low, high), write)
    planes = (shape[2], shape[0], shape[1])
    write = _write_planes(shape, check, (2, 0, 1))
    return ObsConverter(_planes_spec(planes, dtype, low, high), write)


def _planes_spec(shape: tuple[int, ...], dtype: Any, low: float, high: float) -> ArraySpec:
    planes, height, width = shape
    image = ImagePart("", (planes, height, width), 0)
    return ArraySpec.of(shape, dtype, low, high, (image,) if dtype == np.uint8 else ())


def _channels_last(shape: tuple[int, ...]) -> bool:
    """Whether an image is (H, W, C): its smallest dimension comes last, or it is (H, W, 1..4)."""
    return shape[2] <= 4 or shape[2] < shape[0]


def _write_planes(shape: tuple[int, ...], check: Check, order: tuple[int, int, int]) -> Write:
    def write(value: Any, row: Array) -> None:
        row[...] = check(value, shape).transpose(order)

    return write


def _write_box(shape: tuple[int, ...], dtype: Any, check: Check = check_shape) -> Write:
    if len(shape) == 1:

        def write(value: Any, row: Array) -> None:
            # Every dtype of NumPy is one object, so this is the cheapest comparison.
            if type(value) is not np.ndarray or value.shape != shape or value.dtype is not dtype:
                value = check(value, shape)
            row[:] = value

        return write

    def write_flat(value: Any, row: Array) -> None:
        row[:] = check(value, shape).reshape(-1)

    return write_flat


def _leaf(space: Space[Any], name: str) -> _Leaf:
    if isinstance(space, spaces.Box):
        return _box_leaf(space, name)
    if isinstance(space, spaces.Discrete):
        return _discrete_leaf(space, name)
    if isinstance(space, spaces.MultiDiscrete):
        return _multi_discrete_leaf(space)
    if isinstance(space, spaces.MultiBinary):
        write = _write_box(space.shape, space.dtype)
        return _Leaf(prod(space.shape), 0.0, 1.0, write, holds_bytes=True)
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _members_leaf(space, name)
    raise ConfigError(
        f"{name} is a {type(space).__name__} space, which has no fixed size. Wrap the environment "
        "so that it returns Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of these."
    )


def _members_leaf(space: spaces.Dict | spaces.Tuple[Any], name: str) -> _Leaf:
    """The members of a Dict or Tuple, without texts."""
    pairs = space.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    members, left_out = [], []
    for key, part in pairs:
        if part.dtype is not None and part.dtype.kind == "U":
            left_out.append(str(key))
        else:
            members.append((key, _leaf(part, f"{name}[{key!r}]")))
    if left_out and not members:
        raise ConfigError(f"{name} consists of texts only, which networks cannot read.")
    return _concat(members, left_out)


def _box_leaf(space: spaces.Box, name: str) -> _Leaf:
    low, high = box_bounds(space)
    shape = space.shape
    if len(shape) >= 3 and space.dtype == np.uint8:
        if len(shape) > 3:
            raise ConfigError(
                f"{name} is an image {shape} inside a Dict or Tuple. Images have three dimensions: "
                "wrap the environment so that it has one of (H, W, C) or (C, H, W)."
            )
        converter = _array_converter(space)
        planes, height, width = converter.spec.shape
        part = ImagePart("", (planes, height, width), 0)

        def write_image(value: Any, row: Array) -> None:
            converter.write(value, row.reshape(part.shape))

        return _Leaf(prod(shape), low, high, write_image, (part,), holds_bytes=True)
    return _Leaf(prod(shape), low, high, _write_box(shape, space.dtype))


def _discrete_leaf(space: spaces.Discrete, name: str) -> _Leaf:
    choices, start = int(space.n), int(space.start)
    if choices > MAX_ONE_HOT:
        raise ConfigError(
            f"{name} is Discrete({choices}), too large for a one-hot vector (at most "
            f"{MAX_ONE_HOT}). Wrap the environment so that it returns a Box."
        )

    def write(value: Any, row: Array) -> None:
        try:
            choice = index(value) - start
        except TypeError:
            choice = -1
        if not 0 <= choice < choices:
            raise ValueError(f"the observation {show(value)}, which is not in {space}")
        row[:] = 0
        row[choice] = 1

    return _Leaf(choices, 0.0, 1.0, write, holds_bytes=True)


def _multi_discrete_leaf(space: spaces.MultiDiscrete) -> _Leaf:
    counts = np.asarray(space.nvec, np.int64).reshape(-1)
    starts = np.asarray(space.start, np.int64).reshape(-1)
    places = np.cumsum(counts) - counts
    shape = space.shape

    def write(value: Any, row: Array) -> None:
        given = check_shape(value, shape).reshape(-1)
        choices = given - starts
        if given.dtype.kind == "f" or (choices < 0).any() or (choices >= counts).any():
            raise ValueError(f"the observation {show(value)}, which is not in {space}")
        row[:] = 0
        row[places + choices] = 1

    return _Leaf(int(counts.sum()), 0.0, 1.0, write, holds_bytes=True)


def _concat(members: Sequence[tuple[Any, _Leaf]], left_out: Sequence[str]) -> _Leaf:
    """Members of a Dict or Tuple, concatenated."""
    parts: list[tuple[Any, slice, Write]] = []
    images: list[ImagePart] = []
    missing = list(left_out)
    size, low, high = 0, 0.0, 0.0
    for key, leaf in members:
        parts.append((key, slice(size, size + leaf.size), leaf.write))
        images += [
            ImagePart(_path(key, image.name), image.shape, size + image.start)
            for image in leaf.images
        ]
        missing += [_path(key, name) for name in leaf.left_out]
        size += leaf.size
        low, high = min(low, leaf.low), max(high, leaf.high)

    def write(value: Any, row: Array) -> None:
        for key, place, write_part in parts:
            try:
                part = value[key]
            except (KeyError, IndexError, TypeError):
                raise ValueError(f"an observation without {key!r}: {show(value)}") from None
            write_part(part, row[place])

    holds_bytes = all(leaf.holds_bytes for _, leaf in members)
    return _Leaf(size, low, high, write, tuple(images), holds_bytes, tuple(missing))


def _path(key: Any, name: str) -> str:
    return f"{key}.{name}" if name else str(key)
