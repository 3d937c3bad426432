"""Checks of saved states when they are loaded.

Compiled code uses the numbers of a state as indices and sizes without looking at them, so every
loaded array is checked once, before it is used. All functions raise an InvalidStateError that names
the array and the problem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from briskrl.core.errors import DivergedError, InvalidStateError
from briskrl.core.spec import ActionSpec, BoxSpec, MultiDiscreteSpec, SubsetSpec
from briskrl.core.types import JSON, Array, Bools

LARGEST_COUNT = 2**53
"""Counters stay below this: a float64 holds every whole number up to it."""


MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What reading malformed data raises, in Python, NumPy, torch and JSON; includes too deep nesting
and sizes that do not fit into memory."""


@contextmanager
def invalid_state(what: str) -> Iterator[None]:
    """Turn errors of libraries about malformed data into an InvalidStateError."""
    try:
        yield
    except InvalidStateError:
        raise
    except MALFORMED as error:
        raise InvalidStateError(f"{what} cannot be restored ({short(str(error))})") from error


def loaded(arrays: Mapping[str, Array], name: str, like: Array) -> Array:
    """The array of this name, which has the dtype and the shape of `like`."""
    found = arrays.get(name)
    if found is None:
        raise InvalidStateError(f"the array {name} is missing")
    if found.dtype != like.dtype or found.shape != like.shape:
        raise InvalidStateError(
            f"the array {name} is {found.dtype} {found.shape} instead of {like.dtype} {like.shape}"
        )
    if found.dtype == np.bool_:
        check_range(name, np.ascontiguousarray(found).view(np.uint8), 0, 1)
    return found


def loaded_finite(arrays: Mapping[str, Array], name: str, like: Array) -> Array:
    """The same, with finite numbers only."""
    found = loaded(arrays, name, like)
    check_finite(name, found)
    return found


def check_range(name: str, array: Array, low: float, high: float) -> None:
    """Check that all numbers are from `low` to `high`, which NaN is not."""
    if array.size and not (array.min() >= low and array.max() <= high):
        _raise_first(name, array, ~((array >= low) & (array <= high)), f"outside {low} to {high}")


def check_finite(name: str, array: Array) -> None:
    """Check that there is no NaN and no infinity."""
    if not is_finite(array):
        _raise_first(name, array, ~np.isfinite(array), "which is not finite")


def is_finite(array: Array) -> bool:
    """Whether an array holds no NaN and no infinity."""
    return not np.issubdtype(array.dtype, np.floating) or bool(np.isfinite(array).all())


def check_actions(name: str, actions: Array, spec: ActionSpec) -> None:
    """Check actions (..., D) or (...) of environments with these actions."""
    if isinstance(spec, BoxSpec):
        check_finite(name, actions)
    elif isinstance(spec, MultiDiscreteSpec):
        for d, n in enumerate(spec.nvec):
            check_range(name, actions[..., d], 0, n - 1)
    else:
        # Subsets are padded with -1.
        check_range(name, actions, -1 if isinstance(spec, SubsetSpec) else 0, spec.n - 1)


def whole(scalars: Mapping[str, JSON], name: str, high: int = LARGEST_COUNT) -> int:
    """The number of this name, a whole one from 0 to `high`."""
    value = scalars.get(name)
    if type(value) is not int or not 0 <= value <= high:
        raise InvalidStateError(f"{name} is {short(value)} instead of a whole number up to {high}")
    return value


def real(scalars: Mapping[str, JSON], name: str, low: float, high: float = math.inf) -> float:
    """The number of this name, a finite one from `low` to `high`."""
    value: JSON = scalars.get(name)
    if type(value) is int and abs(value) < LARGEST_COUNT:
        value = float(value)
    if type(value) is not float or not low <= value <= high or abs(value) == math.inf:
        raise InvalidStateError(
            f"{name} is {short(value)} instead of a number from {low} to {high}"
        )
    return value


def mapping(scalars: Mapping[str, JSON], name: str) -> dict[str, JSON]:
    """The JSON object of this name."""
    value = scalars.get(name)
    if not isinstance(value, dict):
        raise InvalidStateError(f"{name} is {short(value)} instead of an object")
    return value


def short(value: JSON) -> str:
    """A value of a file as a short text for a message."""
    text = "missing" if value is None else ascii(value)
    return text if len(text) <= 160 else text[:157] + "..."


def check_not_diverged(what: str, arrays: Mapping[str, Array]) -> None:
    """Check before saving that numbers are finite.

    Raises:
        DivergedError: They are not; saved, they would be taken for a good state.
    """
    for name, array in arrays.items():
        if not is_finite(array):
            raise DivergedError(
                f"The {what} holds numbers that are not finite ({name}), so it is not saved. Try a "
                "smaller --lr, a smaller --max-grad-norm or smaller rewards."
            )


def _raise_first(name: str, array: Array, wrong: Bools, problem: str) -> None:
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), array.shape))
    where = f" at {list(place)}" if place else ""
    raise InvalidStateError(f"{name} holds {array[place]}{where}, {problem}")
