"""The folder of a sweep and what its sweep.toml says; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briskrl.cluster.settings import ExecutorConfig
from briskrl.cluster.sweep.settings import Goal, Metric, SweepConfig
from briskrl.core.config import Setting, build, to_dict
from briskrl.core.config_file import Layer, read_file
from briskrl.core.errors import RunFolderError
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import TABLES, resolve

if TYPE_CHECKING:
    from briskrl.cluster.sweep.ledger import RunRecord

ROOT = Path("sweeps")
"""Where sweeps without a --sweep-dir go."""
SWEEP_TOML = "sweep.toml"
OWN_TABLES: Mapping[str, type] = {"sweep": SweepConfig, "executor": ExecutorConfig}
"""Tables of sweep.toml beside the settings of training, with their classes."""


@dataclass(frozen=True, slots=True)
class SweepInfo:
    """What a sweep does, and where."""

    folder: Path
    base: Layer
    """Settings of training that all trials have, unless their own values differ."""
    config: TrainConfig
    """The same as a complete config."""
    settings: SweepConfig
    executor: ExecutorConfig

    @property
    def metric(self) -> Metric:
        """What is compared: a key of the results of runs."""
        return self.settings.metric

    @property
    def goal(self) -> Goal:
        """Whether the largest or the smallest metric is the best."""
        return self.settings.direction

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of every trial."""
        return self.settings.seed_list(self.config.seed)

    @property
    def keys(self) -> tuple[str, ...]:
        """Settings that differ between trials, as they were named; empty for seeds alone."""
        settings = self.settings
        return (*settings.grid, *settings.range, *settings.choice)

    @property
    def runs(self) -> Path:
        """The folder that names of runs belong to: that of the sweep, or one in the storage."""
        from briskrl.cluster.storage import is_url

        storage = self.executor.storage
        if storage is None or is_url(storage):
            return self.folder
        return Path(storage) / self.folder.name

    def folder_of(self, record: RunRecord) -> Path:
        """The run folder of a run."""
        return self.runs / record.name


def read_sweep(folder: Path) -> SweepInfo:
    """What the sweep in this folder does.

    Raises:
        RunFolderError: There is no sweep in the folder.
        ConfigError: Its sweep.toml cannot be used.
    """
    path = folder / SWEEP_TOML
    if not path.is_file():
        raise RunFolderError(f"{folder} is not a sweep folder: it has no {SWEEP_TOML}.")
    layer = read_file(path)
    own: dict[str, Any] = {
        table: build(cls, layer.tables.pop(table, {})) for table, cls in OWN_TABLES.items()
    }
    return SweepInfo(folder, layer, resolve([layer]), own["sweep"], own["executor"])


def sweep_toml(info: SweepInfo) -> str:
    """The content of sweep.toml, from which `read_sweep` and `--config` read the same."""
    import tomli_w

    content: dict[str, Any] = layer_values(info.base)
    # Another sweep from the same file has a folder of its own.
    settings = to_dict(replace(info.settings, sweep_dir=None))
    content["sweep"] = {name: value for name, value in settings.items() if value != {}}
    content["executor"] = to_dict(info.executor)
    return tomli_w.dumps(content)


def config_layer(config: TrainConfig, *, without_defaults: bool = False) -> Layer:
    """The settings of a config, without its run folder.

    Args:
        config: A complete config, or one without the settings of environment and algorithm.
        without_defaults: Leave out settings of the run that have their default, because an
            algorithm may have another one.
    """
    content = to_dict(config)
    if without_defaults:
        defaults = to_dict(TrainConfig())
        content = {name: v for name, v in content.items() if v != defaults.get(name)}
    content.pop("run_dir", None)
    layer = Layer()
    for name, value in content.items():
        if name in TABLES:
            layer.tables[name] = {key: Setting(part) for key, part in value.items()}
        else:
            layer.values[name] = Setting(value)
    return layer


def layer_values(layer: Layer) -> dict[str, Any]:
    """The settings of a layer as plain values; tables are last, as TOML needs them."""
    plain: dict[str, Any] = {name: setting.value for name, setting in layer.values.items()}
    for table, values in layer.tables.items():
        plain[table] = {name: setting.value for name, setting in values.items()}
    return plain


def merge_layers(layers: Iterable[Layer]) -> Layer:
    """The settings of several layers as one; later layers win."""
    merged = Layer()
    for layer in layers:
        merged.values |= layer.values
        for table, values in layer.tables.items():
            merged.tables[table] = merged.tables.get(table, {}) | values
    return merged
