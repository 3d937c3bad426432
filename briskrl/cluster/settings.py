"""Where jobs run: the settings of every command that runs jobs, and the executor for them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from briskrl.core.cpu import usable_cores
from briskrl.core.errors import ConfigError
from briskrl.core.registry import load_object

if TYPE_CHECKING:
    from briskrl.cluster.executor import Executor


@dataclass(frozen=True, slots=True)
class ExecutorConfig:
    """Where jobs run, how many at a time, and what happens if one is lost."""

    executor: Literal["local", "ray"] = "local"
    """Where to run: local processes, which open no port, or a Ray cluster (needs the ray extra)."""
    jobs: Annotated[int, Meta(ge=1, le=4096)] | None = None
    """Jobs that run at the same time; by default as many as the cores allow, by the threads of
    each."""
    address: str | None = None
    """Ray cluster to use: auto for the one on this machine, HOST:PORT if this machine is part
    of it, or ray://HOST:PORT; without it, one is started for this command."""
    storage: str | None = None
    """Where to keep the runs: a folder, or a URL for fsspec such as s3://bucket/path, to which
    checkpoints are copied as they are written; by default the folder of the command."""
    retries: Annotated[int, Meta(ge=0, le=1000)] = 3
    """How often a job is started again after its process was killed, crashed or hung. It continues
    from its last checkpoint."""
    job_timeout: Annotated[float, Meta(ge=0)] = 600.0
    """Seconds without any progress after which a job counts as hung and is started again; 0 waits
    forever."""
    gpus_per_job: Annotated[float, Meta(ge=0, le=64)] = 0.0
    """GPUs for each job, or a share of one, such as 0.5."""

    min_replicas: Annotated[int, Meta(ge=1, le=256)] | None = None
    """Replicas of a run on Ray that are enough to go on with, if lost ones find no room within a
    minute; by default the run waits for room."""

    def check(self) -> list[str]:
        """Problems with combinations of settings, one sentence each."""
        if self.executor == "ray":
            return []
        wrong = []
        if self.address is not None:
            wrong.append(f"address {self.address!r} is for executor = ray.")
        if self.min_replicas is not None:
            wrong.append("min_replicas is for executor = ray, which can lose machines.")
        return wrong


FOR_REPLICAS = ("executor", "address", "retries", "job_timeout", "min_replicas")
"""Settings that the replicas of one run have, too."""


def check_for_replicas(settings: ExecutorConfig) -> None:
    """Check that settings mean something for the replicas of one run.

    Raises:
        ConfigError: One of them is for many runs.
    """
    for field in fields(settings):
        changed = getattr(settings, field.name) != field.default
        if changed and field.name not in FOR_REPLICAS:
            raise ConfigError(
                f"--{field.name.replace('_', '-')} is for many runs (--seeds, brisk sweep), not "
                "for the replicas of one."
            )


def open_executor(settings: ExecutorConfig, folder: Path, *, cpus_per_job: int = 1) -> Executor:
    """The executor that the settings ask for; close it, or use it in a `with` statement.

    Args:
        settings: Where to run.
        folder: Folder of the command, the default storage.
        cpus_per_job: Cores that each job keeps busy; `--jobs` counts such jobs.

    Raises:
        BriskError: It cannot be opened, for example because an extra is missing.
    """
    if settings.min_replicas is not None:
        raise ConfigError(
            "--min-replicas is for the replicas of one run (--replicas), not for many runs."
        )
    if settings.executor == "ray":
        ray: type = load_object("briskrl.cluster.ray.executor:RayExecutor")
        on_cluster: Executor = ray(settings, folder, cpus_per_job=cpus_per_job)
        return on_cluster
    from briskrl.cluster.local import LocalExecutor
    from briskrl.cluster.storage import is_url, open_store

    storage, store = settings.storage, None
    if storage is not None and is_url(storage):
        store = open_store(storage)
    elif storage is not None:
        folder = Path(storage).expanduser()
    jobs = settings.jobs or max(1, usable_cores() // cpus_per_job)
    return LocalExecutor(
        folder,
        slots=jobs * cpus_per_job,
        store=store,
        retries=settings.retries,
        job_timeout_s=settings.job_timeout or None,
    )
