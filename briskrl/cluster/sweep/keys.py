"""The settings that a sweep varies: where they belong, and the values that they can have.

A key is named as in a file or after a flag, aliases included. Imports nothing heavy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_origin

from briskrl.core.aliases import field_aliases, names_without_equivalent, resolve_aliases
from briskrl.core.config import Setting, convert, field_hints
from briskrl.core.config_file import Layer
from briskrl.core.errors import ConfigError, nearest
from briskrl.core.text_values import kinds_of, parse_value, show
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import algo_config_class, env_config_class

if TYPE_CHECKING:
    from briskrl.core.types import JSON

Sections = Sequence[tuple[str, type]]
"""Tables of settings and their classes; a table has several if environments or algorithms vary."""

_NOT_SWEPT = {
    "seed": "Use --seeds, which runs every trial on several seeds.",
    "run_dir": "Runs are in the folder of the sweep; use --sweep-dir to name it.",
    "curriculum": "A curriculum is the same for all trials.",
    "env_config": "Name the settings of the environment themselves.",
    "algo_config": "Name the settings of the algorithm themselves.",
}


@dataclass(frozen=True, slots=True)
class Key:
    """A setting to vary."""

    given: str
    """The name that the user has given, which may be an alias."""
    cls: type
    hint: Any
    """Type of its values."""

    def fields(self, value: Any) -> dict[str, JSON]:
        """The fields that a value of this key sets, as plain data."""
        found, _ = resolve_aliases(self.cls, {self.given: Setting(value)})
        return {name: _plain(setting.value) for name, setting in found.items()}

    @property
    def holds_lists(self) -> bool:
        """Whether a value can be a list, so that a comma does not end it."""
        return any(get_origin(kind) in (tuple, dict) for kind in kinds_of(self.hint))


def sections_of(envs: Iterable[str], algos: Iterable[str]) -> Sections:
    """The tables of settings for these environments and algorithms.

    Raises:
        ConfigError: One of them is unknown.
    """
    found: list[tuple[str, type]] = [("", TrainConfig)]
    found += [("env_config", env_config_class(name)) for name in envs]
    found += [("algo_config", algo_config_class(name)) for name in algos]
    return list(dict.fromkeys(found))


def find_key(name: str, sections: Sections, source: str) -> Key:
    """The key of this name.

    Args:
        name: Name of a field or an alias.
        sections: See `sections_of`.
        source: The flag or table that names the key, for messages.

    Raises:
        ConfigError: There is none, or it cannot be varied; the message suggests what to use.
    """
    if name in _NOT_SWEPT:
        raise ConfigError(f"{source} cannot vary {name!r}. {_NOT_SWEPT[name]}")
    known: list[str] = []
    for _, cls in sections:
        hints, aliases = field_hints(cls), field_aliases(cls)
        if name in hints or name in aliases:
            return Key(name, cls, hints[aliases.get(name, name)])
        if name in names_without_equivalent(cls):
            advice = names_without_equivalent(cls)[name]
            raise ConfigError(f"{source} {name!r} has no exact equivalent. {advice}")
        known += [*hints, *aliases]
    names = set(known) - set(_NOT_SWEPT)
    raise ConfigError(f"{source} names an unknown setting {name!r}. {nearest(name, names)}")


def find_keys(given: Mapping[str, Iterable[str]], sections: Sections) -> list[Key]:
    """The keys of all flags.

    Args:
        given: Names of keys by the flag that names them.
        sections: See `sections_of`.

    Raises:
        ConfigError: A key is unknown, or two of them set the same field.
    """
    keys = [find_key(name, sections, flag) for flag, names in given.items() for name in names]
    names_of: dict[str, str] = {}
    for key in keys:
        for field in key.fields(None):
            other = names_of.setdefault(field, key.given)
            if other != key.given:
                raise ConfigError(
                    f"{other} and {key.given} are the same setting, {field}: give one of them."
                )
    return keys


def values_of(key: Key, raw: str | Sequence[Any], source: str) -> list[Any]:
    """The values in an assignment to a key, converted to its type.

    Args:
        key: The key.
        raw: Text such as "1e-4,1e-3" or "64,64|128", or a list of values.
        source: For messages.

    Raises:
        ConfigError: There are none, one of them does not fit, or one occurs twice.
    """
    values = [_convert(key, value, source) for value in _split(key, raw)]
    if not values:
        raise ConfigError(f"{source} {key.given} has no values.")
    twice = [text for text, count in Counter(map(repr, values)).items() if count > 1]
    if twice:
        raise ConfigError(f"{source} {key.given} names the value {twice[0]} twice.")
    return values


def _split(key: Key, raw: str | Sequence[Any]) -> Iterator[Any]:
    if not isinstance(raw, str):
        yield from raw
        return
    separator = "|" if "|" in raw or key.holds_lists else ","
    for part in raw.split(separator):
        if part.strip():
            yield parse_value(part.strip(), key.hint)


def _convert(key: Key, value: Any, source: str) -> Any:
    try:
        return convert(value, key.hint)
    except ValueError as error:
        raise ConfigError(f"{key.given} = {value!r} ({source}) must be {error}") from None


def layer_of(values: Mapping[str, JSON], sections: Sections, source: str) -> Layer:
    """Values of fields as settings of the tables that they belong to.

    Raises:
        ConfigError: A field belongs to none.
    """
    layer = Layer()
    for name, value in values.items():
        section = next((table for table, cls in sections if name in field_hints(cls)), None)
        if section is None:
            raise ConfigError(f"{source} names an unknown setting {name!r}.")
        target = layer.tables.setdefault(section, {}) if section else layer.values
        target[name] = Setting(value, source)
    return layer


def describe(values: Mapping[str, JSON]) -> str:
    """Values as one line for people, with six digits: "lr=0.001 net=64,64"."""
    return " ".join(f"{name}={_shorten(value)}" for name, value in values.items())


def _shorten(value: JSON) -> str:
    return f"{value:.6g}" if isinstance(value, float) else show(value)


def _plain(value: Any) -> JSON:
    return [_plain(part) for part in value] if isinstance(value, tuple) else value
