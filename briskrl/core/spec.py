"""Shapes, dtypes and bounds of observations and actions, without Gymnasium."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

LARGEST_SIZE = 1 << 20
"""Numbers of an observation along one axis, in files that others may have written."""


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image of bytes that is a slice of a vector."""

    name: str
    """Its key in the observation, as in "camera" or "robot.camera"."""
    shape: tuple[int, int, int]
    """(C, H, W)"""
    start: int
    """Index of its first element."""

    @property
    def place(self) -> slice:
        """Its elements."""
        return slice(self.start, self.start + prod(self.shape))


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape, dtype and bounds of one array, for a single environment."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    low: float
    high: float
    images: tuple[ImagePart, ...] = ()
    """What is known to be a picture: the array itself if it has three dimensions, or slices of a
    vector, for observations with several parts."""

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        dtype: DTypeLike,
        low: float,
        high: float,
        images: tuple[ImagePart, ...] = (),
    ) -> ArraySpec:
        """Build a spec from anything NumPy accepts as a dtype."""
        return cls(shape, np.dtype(dtype), low, high, images)

    @property
    def size(self) -> int:
        """Number of elements of one observation."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class DiscreteSpec:
    """Actions 0..n-1, stored as int64."""

    n: int


@dataclass(frozen=True, slots=True)
class MultiDiscreteSpec:
    """D discrete actions at once: action d is one of 0..nvec[d]-1; stored as (D,) int64."""

    nvec: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SubsetSpec:
    """A subset of up to k of the actions 0..n-1; stored as (k,) int64, padded with -1.

    Masks are over single actions, (n,).
    """

    n: int
    k: int


@dataclass(frozen=True, slots=True)
class BoxSpec:
    """Continuous actions, one float32 vector per environment.

    The environment clips actions to its own bounds, element by element.
    """

    shape: tuple[int, ...]
    """(D,)"""
    low: float
    """The lowest bound of any element."""
    high: float
    """The highest bound of any element."""


def obs_to_dict(obs: ArraySpec) -> dict[str, Any]:
    """The spec of observations as plain data that JSON can hold."""
    data = {"shape": list(obs.shape), "dtype": obs.dtype.name, "low": obs.low, "high": obs.high}
    if obs.images:
        data["images"] = [
            {"name": part.name, "shape": list(part.shape), "start": part.start}
            for part in obs.images
        ]
    return data


def obs_from_dict(data: Mapping[str, Any]) -> ArraySpec:
    """The spec of what `obs_to_dict` returned.

    Raises:
        ValueError: It is no such spec.
    """
    shape = _sizes(data["shape"])
    images = []
    for part in data.get("images", ()):
        planes, height, width = _sizes(part["shape"])
        (start,) = _sizes([part["start"]])
        images.append(ImagePart(str(part["name"]), (planes, height, width), start))
        if images[-1].place.stop > prod(shape) or len(shape) not in (1, 3):
            raise ValueError("an image is outside of its observation")
    return ArraySpec.of(shape, data["dtype"], data["low"], data["high"], tuple(images))


def _sizes(values: Any) -> tuple[int, ...]:
    if not all(type(value) is int and 0 <= value <= LARGEST_SIZE for value in values):
        raise ValueError(f"{values} are no sizes of observations")
    return tuple(values)


ActionSpec = DiscreteSpec | MultiDiscreteSpec | SubsetSpec | BoxSpec

_ACTION_KINDS = {
    "discrete": DiscreteSpec,
    "multi-discrete": MultiDiscreteSpec,
    "subset": SubsetSpec,
    "box": BoxSpec,
}


def action_to_dict(action: ActionSpec) -> dict[str, Any]:
    """The spec as plain data that JSON can hold."""
    kind = next(kind for kind, cls in _ACTION_KINDS.items() if isinstance(action, cls))
    return {"kind": kind, **asdict(action)}


def action_from_dict(data: Mapping[str, Any]) -> ActionSpec:
    """The spec of what `action_to_dict` returned."""
    fields = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}
    cls: Any = _ACTION_KINDS[str(fields.pop("kind"))]
    action: ActionSpec = cls(**fields)
    return action


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """Everything that training must know about an environment before it is built."""

    obs: ArraySpec
    action: ActionSpec
    max_steps: int | None
    """Longest possible episode, if there is a limit."""
    has_mask: bool
    """Whether step buffers carry legal-action masks."""
    exact_state: bool
    """Whether `set_state(get_state())` is bit-exact."""
    code_words: int = 0
    """64-bit words of an observation's code, from which a codec rebuilds it; 0 without codes.
    Environments with codes never truncate episodes."""
    frame_stack: int = 1
    """Frames that an observation consists of, as planes, the newest last; the first frame of an
    episode fills the stack."""
    left_out: tuple[str, ...] = ()
    """Members of the environment's observations that `obs` does not hold, because they are text."""

    @property
    def mask_width(self) -> int:
        """Actions that a mask covers; 0 if there are no masks."""
        if not self.has_mask:
            return 0
        assert isinstance(self.action, DiscreteSpec | SubsetSpec)
        return self.action.n
