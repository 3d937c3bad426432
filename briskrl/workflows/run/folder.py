"""The folder of a run under workflows: how it is made, and what its workflow.toml says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Literal

from briskrl.core.config import Settings, config_error, merge, to_dict, try_build
from briskrl.core.config_file import Layer, read_file
from briskrl.core.errors import ConfigError, RunFolderError, nearest
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.training.storage.atomic_files import json_bytes, make_folder, storage_errors
from briskrl.training.storage.atomic_files import replace as replace_file
from briskrl.training.storage.line_files import plain
from briskrl.training.storage.lock import FolderLock
from briskrl.training.storage.run_dir import ROOT, cannot_create, describe_machine, slug, timestamp
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.run.config import WorkflowConfig
from briskrl.workflows.run.setup import RunSetup, make_setup
from briskrl.workflows.run.stop_config import StopConfig

Mode = Literal["search", "joint", "train", "ppo"]
MODES: tuple[Mode, ...] = ("search", "joint", "train", "ppo")
"""A search, joint training, training under one workflow, and plain PPO as a baseline."""
WORKFLOW_TOML = "workflow.toml"
PLAN = "plan.json"
JOBS = "jobs"
"""Folder of the jobs; the folder of a training job is a run folder."""
TABLES: Mapping[str, type] = {
    "env_config": WorkflowEnvConfig,
    "searcher": SearcherConfig,
    "stop": StopConfig,
}
"""Tables of workflow.toml with classes of their own; [algo_config] belongs to PPO."""
MAY_CHANGE = (
    *("parallel_workflows", "sync_batches", "executor", "address", "job_timeout", "gpus_per_job"),
    *("device", "checkpoint_seconds", "log_episodes"),
)
"""Settings that a resume may change."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run: what it does, and where."""

    folder: Path
    mode: Mode
    setup: RunSetup

    @property
    def config(self) -> WorkflowConfig:
        """Its settings."""
        return self.setup.config


def resolve_config(layers: Sequence[Layer]) -> WorkflowConfig:
    """The config of the layers; later layers win.

    Raises:
        ConfigError: A setting is unknown or cannot be used; the message lists all of them.
    """
    known = [*TABLES, "algo_config"]
    problems = [
        f"Unknown table [{name}]. {nearest(name, known)}"
        for layer in layers
        for name in layer.tables
        if name not in known
    ]
    built: dict[str, Any] = {}
    for name, cls in TABLES.items():
        built[name], wrong = try_build(cls, _merged(layers, name))
        problems += wrong
    given = _merged(layers, "algo_config")
    built["algo_config"] = {key: setting.value for key, setting in given.items()}
    run, wrong = try_build(WorkflowConfig, merge(layer.values for layer in layers))
    problems += wrong
    if run is None or problems:
        raise config_error(problems)
    return replace(run, **built)


def _merged(layers: Sequence[Layer], table: str) -> Settings:
    """The settings of a table; those of the environment itself are merged one by one, too."""
    merged = merge(layer.table(table) for layer in layers)
    nested = [layer.table(table).get("task_config") for layer in layers]
    given = [setting for setting in nested if setting is not None]
    if given and all(isinstance(setting.value, Mapping) for setting in given):
        whole = {key: value for setting in given for key, value in setting.value.items()}
        merged["task_config"] = replace(given[-1], value=whole)
    return merged


def create_folder(setup: RunSetup, mode: Mode) -> RunInfo:
    """Create the folder of a new run.

    Raises:
        RunFolderError: It exists, or cannot be created.
    """
    config = setup.config
    if config.run_dir is not None:
        path = Path(config.run_dir)
        if path.exists():
            raise RunFolderError(
                f"The run folder {path} already exists. Choose another one with --run-dir, or "
                f"continue the run in it with: brisk workflow resume {path}"
            )
        try:
            make_folder(path, exist_ok=False)
        except OSError as error:
            raise cannot_create(path, error) from error
    else:
        path = _make_named(f"workflow_{slug(config.task)}", config.seed)
    return RunInfo(path, mode, setup)


def _make_named(name: str, seed: int) -> Path:
    first = ROOT / f"{name}_{datetime.now(UTC):%Y%m%dT%H%M%SZ}_{seed}"
    path = first
    for number in count(2):
        try:
            make_folder(path, exist_ok=False)
            return path
        except FileExistsError:
            path = first.with_name(f"{first.name}-{number}")
        except OSError as error:
            raise cannot_create(path, error) from error
    raise AssertionError("unreachable")


def write_info(info: RunInfo) -> None:
    """Write the settings of a run, and its plan."""
    import tomli_w

    # Another run from the same file has a folder of its own.
    content = {"mode": info.mode, **to_dict(replace(info.config, run_dir=None))}
    path = info.folder / WORKFLOW_TOML
    with storage_errors(f"write {path}"):
        replace_file(path, tomli_w.dumps(content).encode())
    setup = info.setup
    about = {
        "time": timestamp(),
        "mode": info.mode,
        "categories": list(setup.space.categories),
        "space_size": setup.space.size,
        "constraints": list(setup.space.require),
        "named": {name: flow.id for name, flow in setup.space.named.items()},
        "plan": setup.plan().as_json() if info.mode == "search" else None,
        **describe_machine(),
    }
    path = info.folder / PLAN
    if not path.exists():
        with storage_errors(f"write {path}"):
            replace_file(path, json_bytes(plain(about)))


def read_info(folder: Path) -> RunInfo:
    """The run in a folder.

    Raises:
        RunFolderError: There is none.
        ConfigError: Its workflow.toml cannot be used.
    """
    path = folder / WORKFLOW_TOML
    if not path.is_file():
        raise RunFolderError(f"{folder} is not a run under workflows: it has no {WORKFLOW_TOML}.")
    layer = read_file(path)
    mode = layer.values.pop("mode").value if "mode" in layer.values else "search"
    if mode not in MODES:
        raise ConfigError(f"{path} has the unknown mode {mode!r}. {nearest(str(mode), MODES)}")
    return RunInfo(folder, mode, make_setup(resolve_config([layer])))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder.

    Raises:
        RunFolderError: Another process holds it.
    """
    lock = FolderLock(folder / "lock")
    lock.acquire()
    try:
        yield
    finally:
        lock.release()
