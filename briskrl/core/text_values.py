"""Values of settings written as text, as after a flag or in an assignment `key=value`.

Text is only converted here; `briskrl.core.config` checks the values.
"""

from __future__ import annotations

import json
import types
from contextlib import suppress
from typing import Annotated, Any, Literal, Union, get_args, get_origin

Assignments = dict[str, str | list[Any]]
"""Values by key, as text or as a list; each flag of this type assigns one key: `--grid lr=1,2`."""

_BOOLEANS = {"true": True, "on": True, "false": False, "off": False}


def parse_value(text: str, hint: Any) -> Any:
    """The value of a command-line argument for a type; the text itself if it does not fit."""
    for kind in kinds_of(hint):
        if get_origin(kind) is dict:
            return _table(text)
        if get_origin(kind) is tuple:
            inner = get_args(kind)[0]
            return [parse_value(part.strip(), inner) for part in text.split(",") if part.strip()]
        if get_origin(kind) is Literal:
            # Choices may be numbers.
            named = {str(choice): choice for choice in get_args(kind)}
            if text in named:
                return named[text]
        if kind is types.NoneType and text.lower() == "none":
            return None
        if kind is bool and text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        if kind in (int, float):
            number = _number(text, kind)
            if number is not None:
                return number
    return text


def show(value: object) -> str:
    """A value as it is typed after its flag; on or off for booleans, a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple | list):
        return ",".join(map(show, value)) or "-"
    if isinstance(value, dict):
        return ",".join(f"{key}={json.dumps(part)}" for key, part in value.items()) or "-"
    return str(value)


def kinds_of(hint: Any) -> list[Any]:
    """The plain types that a hint allows, in order."""
    origin = get_origin(hint)
    if origin is Annotated:
        return kinds_of(get_args(hint)[0])
    if origin in (Union, types.UnionType):
        return [kind for member in get_args(hint) for kind in kinds_of(member)]
    return [hint]


def _table(text: str) -> Any:
    """JSON, or key=value pairs whose values are JSON or text; the text itself if it is neither."""
    if text.lstrip().startswith("{"):
        with suppress(ValueError):
            return json.loads(text)
        return text
    table = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            return text
        try:
            table[key.strip()] = json.loads(value)
        except ValueError:
            table[key.strip()] = value.strip()
    return table


def _number(text: str, kind: type) -> int | float | None:
    if kind is int:
        with suppress(ValueError):
            return int(text)
    try:
        value = float(text)
    except ValueError:
        return None
    # Steps are often written as 1e6.
    return int(value) if kind is int and value.is_integer() else value
