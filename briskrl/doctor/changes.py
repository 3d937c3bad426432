"""Settings by dotted name: changing a config, and saying so on a command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from briskrl.training.config import TrainConfig

Changes = Mapping[str, Any]
"""Values by field of TrainConfig, or by table and field: `algo_config.batch_size`."""


def changed(config: TrainConfig, changes: Changes) -> TrainConfig:
    """The config with other values in some places."""
    for name, value in changes.items():
        table, dot, field = name.partition(".")
        if dot:
            nested = replace(getattr(config, table), **{field: value})
            config = replace(config, **{table: nested})
        else:
            config = replace(config, **{name: value})
    return config


def as_flags(changes: Changes) -> str:
    """The changes as they would be typed after `brisk train`."""
    return " ".join(_flag(name.rpartition(".")[2], value) for name, value in changes.items())


def _flag(field: str, value: Any) -> str:
    name = field.replace("_", "-")
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    if isinstance(value, float):
        return f"--{name} {value:g}"
    if isinstance(value, tuple | list):
        return f"--{name} {','.join(map(str, value))}"
    return f"--{name} {value}"
