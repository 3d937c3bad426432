"""Changes of a run's config.toml between two sessions: which a resume accepts.

A config class lists the fields that may change in `RESUME_MAY_CHANGE`. They decide how long, how
fast and with which records a run trains. All others decide what is trained, and the saved state was
made with them.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from briskrl.core.config import build, changeable_fields, field_defaults, settings, to_dict
from briskrl.core.errors import ConfigError
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import TABLES


def check_unchanged(config: TrainConfig, recorded: Mapping[str, Any], path: Path) -> None:
    """Check that the config of a run is the one that its last session recorded.

    Args:
        config: The config as it is in the file.
        recorded: `to_dict` of the config of the last session.
        path: The file, for the message.

    Raises:
        ConfigError: A setting differs that may not change; the message names all of them.
    """
    changes = list_changes(config, recorded)
    if changes:
        raise ConfigError(
            f"{path} has changed since the run was last trained: {', '.join(changes)}. The saved "
            "state was made with the old settings, so change them back, or train a new run with "
            f"`brisk train --config {path} --run-dir NEW`."
        )


def with_changes(config: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    """The config with other settings of its algorithm.

    Raises:
        ConfigError: A setting is unknown or invalid, or the saved state depends on it.
    """
    if not changes:
        return config
    algo = config.algo_config
    allowed = changeable_fields(type(algo))
    fixed = sorted(set(changes) - allowed)
    if fixed:
        raise ConfigError(
            f"{', '.join(fixed)} cannot change when a run of {config.algo} is resumed. Settings "
            f"that can: {', '.join(sorted(allowed)) or 'none'}."
        )
    values = {field.name: getattr(algo, field.name) for field in dataclasses.fields(algo)}
    changed = build(type(algo), settings({**values, **changes}))
    return dataclasses.replace(config, algo_config=changed)


def list_changes(config: TrainConfig, recorded: Mapping[str, Any]) -> list[str]:
    """The settings that differ from recorded ones and may not change, one clause each."""
    return list(_changes(config, recorded))


def _changes(config: TrainConfig, recorded: Mapping[str, Any]) -> Iterator[str]:
    yield from _differences(config, recorded, "")
    for table in TABLES:
        nested, before = getattr(config, table), recorded.get(table)
        same_class = recorded.get("env" if table == "env_config" else "algo") == getattr(
            config, "env" if table == "env_config" else "algo"
        )
        # Settings of another environment or algorithm have nothing in common with the old ones.
        if same_class and dataclasses.is_dataclass(nested) and isinstance(before, Mapping):
            yield from _differences(nested, before, f"{table}.")


def _differences(config: Any, recorded: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """The fields of one config object that differ and may not change."""
    values, defaults = to_dict(config), field_defaults(type(config))
    fixed = set(defaults) - changeable_fields(type(config)) - set(TABLES)
    for name in sorted(fixed):
        now, before = values.get(name), recorded.get(name)
        # A setting that an older version did not have is missing; unset ones are missing too.
        is_new = before is None and defaults[name] is not None
        if now != before and not is_new:
            yield f"{prefix}{name} = {reprlib.repr(now)} (was {reprlib.repr(before)})"
