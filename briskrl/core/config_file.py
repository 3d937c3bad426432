"""Read TOML, JSON and YAML config files as data, with the line of every key.

Reading never runs code and checks only the syntax; `briskrl.core.config` checks the content.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from briskrl.core.config import Setting, Settings
from briskrl.core.errors import ConfigError

Lines = dict[tuple[str, ...], int]
"""Line numbers of keys: ("lr",) at the top level, ("algo_config", "lr") in a table."""

TOML_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
TOML_KEY = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")

# YAML 1.1 reads 1e-3 as text; it is meant as a number, as in YAML 1.2.
YAML_FLOAT = re.compile(
    r"[-+]?(?:(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
    r"|[0-9][0-9_]*[eE][-+]?[0-9]+|\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)


@dataclass(slots=True)
class Layer:
    """Settings of one source: those at the top level, and those of tables by table name."""

    values: Settings = field(default_factory=dict)
    tables: dict[str, Settings] = field(default_factory=dict)

    def table(self, name: str) -> Settings:
        """The settings of one table; empty if the table is absent."""
        return self.tables.get(name, {})


def read_file(path: str | Path) -> Layer:
    """The settings of a .toml, .json, .yaml or .yml file, each with its line.

    Raises:
        ConfigError: The file is missing, unreadable, of an unknown type or malformed.
    """
    path = Path(path)
    parse = PARSERS.get(path.suffix.lower())
    if parse is None:
        raise ConfigError(f"Cannot read {path}: the name must end in {', '.join(PARSERS)}.")
    try:
        data, lines = parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split()) or "nested too deeply"
        raise ConfigError(f"{path} is not well-formed: {reason}.") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must contain keys and values, not a {type(data).__name__}.")
    return _layer(data, str(path), lines)


def _layer(data: Mapping[Any, Any], name: str, lines: Lines) -> Layer:
    layer = Layer()
    for key, value in data.items():
        if isinstance(value, dict):
            inner = ((str(k), v, (str(key), str(k))) for k, v in value.items())
            layer.tables[str(key)] = {k: Setting(v, _at(name, lines, at)) for k, v, at in inner}
        else:
            layer.values[str(key)] = Setting(value, _at(name, lines, (str(key),)))
    return layer


def _at(name: str, lines: Lines, path: tuple[str, ...]) -> str:
    line = lines.get(path)
    return name if line is None else f"{name}, line {line}"


def _parse_toml(text: str) -> tuple[Any, Lines]:
    return tomllib.loads(text), _toml_lines(text)


def _toml_lines(text: str) -> Lines:
    """Line numbers of keys; finds the one-line forms in which settings are written."""
    lines: Lines = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := TOML_HEADER.match(line):
            table = _toml_path(header[1])
        elif key := TOML_KEY.match(line):
            lines.setdefault((*table, *_toml_path(key[1])), number)
    return lines


def _toml_path(key: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in key.split("."))


def _parse_json(text: str) -> tuple[Any, Lines]:
    data = json.loads(text, object_pairs_hook=_unique_pairs)
    try:
        lines = _parse_yaml(text)[1]
    except (ValueError, RecursionError):
        # JSON that is not YAML (tabs) has no line numbers, which only improve messages.
        lines = {}
    return data, lines


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} appears twice in one object")
    return result


def _parse_yaml(text: str) -> tuple[Any, Lines]:
    yaml: Any = import_module("yaml")
    lines: Lines = {}
    try:
        loader = _yaml_loader()(text)
        node = loader.get_single_node()
        if node is None:
            return {}, lines
        _yaml_lines(node, (), lines)
        return loader.construct_document(node), lines
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


@cache
def _yaml_loader() -> Any:
    """PyYAML's safe loader with the numbers of YAML 1.2; imported here because it is slow."""
    loader: Any = type("Loader", (import_module("yaml").SafeLoader,), {})
    loader.add_implicit_resolver("tag:yaml.org,2002:float", YAML_FLOAT, list("-+0123456789."))
    return loader


def _yaml_lines(node: Any, path: tuple[str, ...], lines: Lines) -> None:
    """Collect the lines of a mapping's keys, two levels deep; a repeated key is an error."""
    if node.id != "mapping" or len(path) > 1:
        return
    for key, value in node.value:
        here = (*path, str(key.value))
        if here in lines:
            raise ValueError(f"line {key.start_mark.line + 1} repeats the key {key.value!r}")
        lines[here] = key.start_mark.line + 1
        _yaml_lines(value, here, lines)


PARSERS: dict[str, Callable[[str], tuple[Any, Lines]]] = {
    ".toml": _parse_toml,
    ".json": _parse_json,
    ".yaml": _parse_yaml,
    ".yml": _parse_yaml,
}
"""Parsers by file name suffix."""
