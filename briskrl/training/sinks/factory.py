"""The sinks of a run, by the names of `--log`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec

from briskrl.core.config import to_dict
from briskrl.core.errors import ConfigError
from briskrl.core.types import JSON
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import TABLES
from briskrl.training.sinks.base import GuardedSink, MetricSink, SinkContext
from briskrl.training.storage.run_dir import RunDir

_PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow"}


def check_sinks(names: tuple[str, ...]) -> None:
    """Check that the packages of the sinks are installed.

    Raises:
        ConfigError: One is missing.
    """
    for name in names:
        if name in _PACKAGES and find_spec(_PACKAGES[name]) is None:
            raise ConfigError(
                f"--log {name} needs the package {_PACKAGES[name]}. Install it with: "
                f"pip install 'briskrl[{name}]'"
            )


def make_sinks(
    config: TrainConfig, folder: RunDir, note: Callable[[str], None]
) -> list[GuardedSink]:
    """The sinks that a config asks for; they open at their first use."""
    context = SinkContext(folder.path, config.env, config.algo, _flat(to_dict(config)))
    return [
        GuardedSink(name, _opener(name, context), config.tags, note)
        for name in dict.fromkeys(config.log)
    ]


def _opener(name: str, context: SinkContext) -> Callable[[], MetricSink]:
    def open_sink() -> MetricSink:
        if name == "csv":
            from briskrl.training.sinks.csv_sink import CsvSink

            return CsvSink(context.run_dir)
        if name == "wandb":
            from briskrl.training.sinks.wandb_sink import WandbSink

            return WandbSink(context)
        if name == "mlflow":
            from briskrl.training.sinks.mlflow_sink import MlflowSink

            return MlflowSink(context)
        from briskrl.training.sinks.tensorboard_sink import TensorBoardLog

        return TensorBoardLog(context)

    return open_sink


def _flat(config: Mapping[str, JSON]) -> dict[str, JSON]:
    flat: dict[str, JSON] = {}
    for name, value in config.items():
        if name in TABLES:
            flat |= {f"{name}.{key}": member for key, member in value.items()}
        elif name != "run_dir":
            flat[name] = value
    return flat
