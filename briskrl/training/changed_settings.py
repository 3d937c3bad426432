"""The settings of a run that differ from the defaults of its environment and algorithm."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from briskrl.algos.registry import ALGOS
from briskrl.core.config import build, settings, to_dict
from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.core.state_checks import MALFORMED
from briskrl.core.types import JSON
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import (
    TABLES,
    algo_config_class,
    env_config_class,
    steps_in_python,
)
from briskrl.training.storage.own_files import read_regular
from briskrl.training.storage.run_dir import RunDir

_NOT_SETTINGS = ("env", "algo", "run_dir")
"""Names of what is trained, and where, rather than how."""


def changed_settings(config: Mapping[str, JSON]) -> dict[str, JSON]:
    """Settings that are not the defaults, by name, those of tables with dotted names.

    Args:
        config: A config as plain data: `env`, `algo`, and any of the run's settings and tables.
    """
    defaults = default_settings(str(config["env"]), str(config["algo"]))
    changed: dict[str, JSON] = {}
    for name, value in config.items():
        if name in TABLES:
            usual = defaults.get(name, {})
            found = {key: one for key, one in value.items() if usual.get(key) != one}
            changed |= {f"{name}.{key}": one for key, one in found.items()}
        elif name not in _NOT_SETTINGS and defaults.get(name) != value:
            changed[name] = value
    return changed


def read_config(run_dir: str | Path) -> dict[str, JSON]:
    """The config of a run folder as plain data; nothing that it names is imported.

    Raises:
        RunFolderError: There is no run, or its config cannot be read.
    """
    path = RunDir.open(Path(run_dir)).config_path
    try:
        config = tomllib.loads(read_regular(path).decode("utf-8"))
        if not {"env", "algo"} <= config.keys():
            raise ValueError("it names no environment or no algorithm")
        return config
    except (OSError, *MALFORMED) as error:
        raise RunFolderError(f"{path} cannot be read: {error}.") from error


def default_settings(env: str, algo: str) -> dict[str, JSON]:
    """The defaults of an environment and an algorithm as plain data; {} for unknown tables."""
    run = to_dict(TrainConfig())
    tables: dict[str, Any] = {}
    # Only the user's own program may register the algorithm or the environment.
    with suppress(ConfigError):
        entry = ALGOS.get(algo)
        in_python = steps_in_python(env)
        run |= entry.run_defaults(in_python=in_python)
        preset = settings(entry.algo_defaults(in_python=in_python))
        tables["algo_config"] = to_dict(build(algo_config_class(algo), preset))
    with suppress(ConfigError):
        tables["env_config"] = to_dict(build(env_config_class(env), {}))
    return run | tables
