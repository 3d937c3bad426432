"""What a search can choose: ranges of numbers, and lists of values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from briskrl.cluster.sweep.keys import Key, values_of
from briskrl.core.config import convert
from briskrl.core.errors import ConfigError
from briskrl.core.text_values import kinds_of, show

_RANGE = re.compile(r"(?P<low>[^:]+?)\.\.(?P<high>[^:]+?)(?P<options>(:[^:]*)*)")
_OPTIONS = ("log", "int")
_FORM = "the form LOW..HIGH, LOW..HIGH:log or LOW..HIGH:int, as in 1e-4..1e-2:log"


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers between two ends, both included."""

    low: float
    high: float
    whole: bool = False
    """Only integers."""
    log: bool = False
    """Uniform in the logarithm."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several values, which have names because Optuna takes no lists."""

    values: Mapping[str, Any]


Dimension = Range | Choice


def dimension_of_range(key: Key, raw: str | Sequence[Any]) -> Range:
    """The range that is assigned to a key.

    Args:
        key: The key.
        raw: Text such as "1e-4..1e-2:log", or a list of the ends and the options.

    Raises:
        ConfigError: It has another form, is empty, or has ends that do not fit the key.
    """
    low_text, high_text, options = _parts(key, raw)
    numeric = {int, float} & set(kinds_of(key.hint))
    if not numeric:
        raise ConfigError(f"--range {key.given}: it is not a number. Use --choice for its values.")
    whole = "int" in options or float not in numeric
    low, high = (_number(key, end, whole=whole) for end in (low_text, high_text))
    if low >= high:
        raise ConfigError(f"--range {key.given}: {show(low)} is not below {show(high)}.")
    if "log" in options and low <= 0:
        raise ConfigError(f"--range {key.given}: a logarithmic range must begin above 0.")
    return Range(low, high, whole=whole, log="log" in options)


def dimension_of_choice(key: Key, raw: str | Sequence[Any]) -> Choice:
    """The values to choose from that are assigned to a key.

    Raises:
        ConfigError: See `values_of`; or there is only one.
    """
    values = values_of(key, raw, "--choice")
    if len(values) < 2:
        raise ConfigError(
            f"--choice {key.given} has only the value {show(values[0])}: name another one, or set "
            f"it for all trials."
        )
    return Choice({show(value): value for value in values})


def _parts(key: Key, raw: str | Sequence[Any]) -> tuple[Any, Any, list[str]]:
    """Both ends and the options."""
    if isinstance(raw, str):
        found = _RANGE.fullmatch(raw.strip())
        if found is None:
            raise ConfigError(f"--range {key.given}={raw} must have {_FORM}.")
        ends, options = [found["low"], found["high"]], found["options"].split(":")[1:]
    else:
        ends, options = list(raw[:2]), [str(option) for option in raw[2:]]
    unknown = [option for option in options if option not in _OPTIONS]
    if len(ends) < 2 or unknown:
        raise ConfigError(f"--range {key.given}={_show(raw)} must have {_FORM}.")
    return ends[0], ends[1], options


def _number(key: Key, end: Any, *, whole: bool) -> float:
    try:
        value = float(end)
    except (TypeError, ValueError):
        raise ConfigError(
            f"--range {key.given}: {end!r} is not a number. It has {_FORM}."
        ) from None
    if whole and not value.is_integer():
        raise ConfigError(f"--range {key.given}: {show(end)} is not an integer.")
    number = int(value) if whole else value
    try:
        convert(number, key.hint)
    except ValueError as error:
        raise ConfigError(f"{key.given} = {show(end)} (--range) must be {error}") from None
    return number


def _show(raw: str | Sequence[Any]) -> str:
    return raw if isinstance(raw, str) else show(list(raw))
