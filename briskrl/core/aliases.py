"""Other names for settings, so that names from other libraries work in flags, files and Python.

A config class lists them in two tables. `ALIASES` maps another name to the field it stands for.
`NO_EQUIVALENT` maps a name that has no exact equivalent to a sentence that says what to use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from briskrl.core.config import Settings


@dataclasses.dataclass(frozen=True, slots=True)
class Alias:
    """The field that another name stands for, if the name also fixes the value of other fields."""

    field: str
    also: Mapping[str, object]
    """Values of other fields that the name implies, for example a unit."""


AliasTable = Mapping[str, str | Alias]
"""Other names, each with the field it stands for."""


def field_aliases(cls: type) -> dict[str, str]:
    """Other names that a config class accepts, each with the field it stands for."""
    return {name: _alias(entry).field for name, entry in _aliases(cls).items()}


def names_without_equivalent(cls: type) -> Mapping[str, str]:
    """Names from other libraries that a config class rejects, each with what to use instead."""
    table: Mapping[str, str] = getattr(cls, "NO_EQUIVALENT", {})
    return table


def resolve_aliases(cls: type, values: Settings) -> tuple[Settings, list[str]]:
    """Settings under the names of fields, and a sentence for every name that cannot be used."""
    aliases, rejected = _aliases(cls), names_without_equivalent(cls)
    plain: Settings = {}
    problems = []
    for name, setting in values.items():
        if name in rejected:
            source = "" if setting.source in ("", name) else f" ({setting.source})"
            problems.append(f"{name}{source} has no exact equivalent. {rejected[name]}")
            continue
        alias = _alias(aliases.get(name, name))
        given = {alias.field: setting}
        given |= {key: dataclasses.replace(setting, value=v) for key, v in alias.also.items()}
        for field, new in given.items():
            old = plain.get(field)
            if old is not None and old.value != new.value:
                problems.append(
                    f"Conflicting values for {field}: {old.value}{old.where()} and "
                    f"{new.value}{new.where()}. Give one of them."
                )
            plain[field] = new
    return plain, problems


def _aliases(cls: type) -> AliasTable:
    table: AliasTable = getattr(cls, "ALIASES", {})
    return table


def _alias(entry: str | Alias) -> Alias:
    return entry if isinstance(entry, Alias) else Alias(entry, {})
