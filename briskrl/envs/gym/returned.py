"""Checks of what environments return: messages that name the value instead of an error in our code.

Values of the expected types are not passed through here; callers test for those themselves, because
that costs nothing.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from briskrl.core.types import Array

NUMBERS = frozenset(
    {float, int, np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_, bool}
)
"""Types of rewards that `float` converts as expected; it would also convert text."""


class InvalidReturnError(ValueError):
    """An environment returned something unusable; the text continues "the environment returned"."""


def show(value: Any) -> str:
    """A value and its type, in one short line."""
    text = " ".join(reprlib.repr(value).split())
    return f"{text} ({type(value).__name__})"


def unpack_step(result: Any) -> tuple[Any, Any, Any, Any, Any]:
    """The five values of a step.

    Raises:
        InvalidReturnError: There are not five.
    """
    if not isinstance(result, tuple | list) or len(result) != 5:
        raise InvalidReturnError(
            f"{_count(result)} from step instead of obs, reward, terminated, truncated and info"
        )
    obs, reward, terminated, truncated, info = result
    return obs, reward, terminated, truncated, info


def unpack_reset(result: Any) -> tuple[Any, Mapping[str, Any]]:
    """The observation and the info of a reset.

    Raises:
        InvalidReturnError: There are not two values, or the info is not a dict.
    """
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise InvalidReturnError(f"{_count(result)} from reset instead of obs and info")
    obs, info = result
    return obs, check_info(info)


def check_info(info: Any) -> Mapping[str, Any]:
    """The info.

    Raises:
        InvalidReturnError: It is not a dict.
    """
    if not isinstance(info, Mapping):
        raise InvalidReturnError(f"info = {show(info)}, which is not a dict")
    return info


def to_flag(name: str, value: Any) -> bool:
    """`terminated` or `truncated` as a bool; 0, 1 and arrays without dimensions are accepted.

    Raises:
        InvalidReturnError: It is something else, such as text or one flag per environment.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    array = _as_array(value)
    if array is None or array.shape or array.dtype.kind not in "biuf" or array not in (0, 1):
        raise InvalidReturnError(f"{name} = {show(value)}, which is not a bool")
    return bool(array)


def to_flags(terminated: Any, truncated: Any) -> tuple[bool, bool]:
    """Both flags of a step as bools; see `to_flag`."""
    return to_flag("terminated", terminated), to_flag("truncated", truncated)


def to_reward(value: Any) -> float:
    """The reward as a float; arrays without dimensions are accepted.

    Raises:
        InvalidReturnError: It is not one real number.
    """
    array = _as_array(value)
    if array is None or array.shape or array.dtype.kind not in "biuf":
        raise InvalidReturnError(f"reward = {show(value)}, which is not a number")
    return float(array)


def check_numbers(array: Array) -> None:
    """Check that an observation holds real numbers.

    Raises:
        InvalidReturnError: It holds complex numbers, text or objects.
    """
    if array.dtype.kind not in "biuf":
        raise InvalidReturnError(
            f"an observation of dtype {array.dtype}, which does not hold real numbers"
        )


def _count(result: Any) -> str:
    if isinstance(result, tuple | list):
        return f"{len(result)} values"
    return f"one value ({type(result).__name__})"


def _as_array(value: Any) -> Array | None:
    try:
        array: Array = np.asarray(value)
    except Exception:
        # Lists of unequal lengths, and objects with a conversion of their own.
        return None
    return array
