"""Settings of runs from their folders, in a form that can be compared.

Nothing that a config names is imported. Settings that an older version did not have get their
defaults, if environment and algorithm are known.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from briskrl.core.config import to_dict
from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.core.state_checks import MALFORMED
from briskrl.core.text_values import show
from briskrl.core.types import JSON
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import TABLES, load_run_config
from briskrl.training.storage.own_files import read_regular
from briskrl.training.storage.run_dir import RunDir

Flat = dict[str, JSON]
"""Settings by name; those of tables have dotted names, unset ones are None."""

NO_INFLUENCE = frozenset(
    {
        *("seed", "run_dir", "warmup", "log_seconds", "tensorboard", "log", "tags"),
        *("eval_every", "eval_episodes"),
        *("checkpoint_steps", "checkpoint_seconds", "keep_checkpoints"),
    }
)
"""Settings that may differ between repetitions of a run: its seed, and those that change no
result."""


def read_settings(folder: Path) -> Flat:
    """All settings of the run in a folder; `env`, `algo` and `seed` are always there.

    Raises:
        RunFolderError: There is no run, or its config cannot be read.
    """
    path = RunDir.open(folder).config_path
    try:
        content = tomllib.loads(read_regular(path).decode("utf-8"))
        content |= {"env": str(content["env"]), "algo": str(content["algo"])}
        content["seed"] = int(content.get("seed", 0))
    except (OSError, *MALFORMED) as error:
        raise RunFolderError(f"{path} cannot be read: {error}.") from error
    try:
        return flat_settings(load_run_config(path))
    except ConfigError:
        # A class that only the user's own program registers, or a setting of another version.
        return _flat(content)


def flat_settings(config: TrainConfig) -> Flat:
    """All settings of a complete config."""
    return _flat(to_dict(config))


def identity(settings: Mapping[str, JSON]) -> str:
    """A text that is equal for runs that differ only in their seed and in what they record."""
    kept = {k: v for k, v in settings.items() if k not in NO_INFLUENCE and v is not None}
    return json.dumps(kept, sort_keys=True)


def differing(many: Sequence[Mapping[str, JSON]]) -> list[str]:
    """Names of the settings that are not the same everywhere, in the order of their classes."""
    names = dict.fromkeys(name for settings in many for name in settings)
    return [
        name
        for name in names
        if name not in NO_INFLUENCE
        and any(settings.get(name) != many[0].get(name) for settings in many)
    ]


def describe_settings(settings: Mapping[str, JSON], names: Iterable[str]) -> str:
    """The named settings as in `lr=0.001, net=64,64`."""
    return ", ".join(f"{name.rpartition('.')[2]}={_describe(settings.get(name))}" for name in names)


def _describe(value: JSON) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
        return f"{len(value)} tables"
    return show(value)


def _flat(config: Mapping[str, JSON]) -> Flat:
    flat: Flat = {field: None for field in TrainConfig.__dataclass_fields__ if field not in TABLES}
    for name, value in config.items():
        if name in TABLES and isinstance(value, Mapping):
            flat |= {f"{name}.{key}": member for key, member in value.items()}
        else:
            flat[name] = value
    return flat
