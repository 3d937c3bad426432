"""Shapes, dtypes and bounds of observations and actions, without Gymnasium."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape, dtype and bounds of one array, for a single environment."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    low: float
    high: float

    @classmethod
    def of(cls, shape: tuple[int, ...], dtype: DTypeLike, low: float, high: float) -> ArraySpec:
        """Build a spec from anything NumPy accepts as a dtype."""
        return cls(shape, np.dtype(dtype), low, high)

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

    @property
    def mask_width(self) -> int:
        """Actions that a mask covers; 0 if there are no masks."""
        if not self.has_mask:
            return 0
        assert isinstance(self.action, DiscreteSpec | SubsetSpec)
        return self.action.n
