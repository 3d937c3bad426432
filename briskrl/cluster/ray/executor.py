"""Runs jobs on a Ray cluster.

Ray finds a node with free cores and GPUs for every worker process, and starts it there. The rest
(the order of jobs, retries, hangs, cancelling) is that of the local executor: Ray would repeat a
lost call without a word to the driver, which has to count attempts.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from briskrl.cluster.job import JobEvent
from briskrl.cluster.local import LocalExecutor, Task
from briskrl.cluster.mirror import Mirror
from briskrl.cluster.ray.connect import connect
from briskrl.cluster.ray.driver_files import DriverFiles
from briskrl.cluster.ray.host import METHODS_AT_ONCE, HostSettings, JobHost
from briskrl.cluster.ray.own_paths import own_paths
from briskrl.cluster.ray.remote_process import Mail, RemoteProcess
from briskrl.cluster.resources import VISIBLE_GPUS, Grant
from briskrl.cluster.settings import ExecutorConfig
from briskrl.cluster.storage import is_url, open_store
from briskrl.core.cpu import usable_cores
from briskrl.core.errors import BriskError


class RayExecutor(LocalExecutor):
    """Runs jobs in reused worker processes on the nodes of a Ray cluster.

    Args:
        settings: Where to run.
        folder: Where the folders of jobs are, unless the settings name another one.
        cpus_per_job: Cores that each job keeps busy.

    Raises:
        BriskError: There is no Ray, or no cluster that can be used.
    """

    def __init__(self, settings: ExecutorConfig, folder: Path, *, cpus_per_job: int = 1) -> None:
        store = None
        if settings.storage is not None and is_url(settings.storage):
            store = open_store(settings.storage)
        elif settings.storage is not None:
            folder = Path(settings.storage).expanduser()
        jobs = settings.jobs or max(1, usable_cores() // cpus_per_job)
        with ExitStack() as stack:
            connection = stack.enter_context(
                connect(settings.address, num_cpus=jobs * cpus_per_job)
            )
            self._nodes = Nodes.find()
            if settings.jobs is None:
                jobs = max(1, self._nodes.cores // cpus_per_job)
            # Only nodes of our own cluster are sure to see the folder.
            self._scratch = not connection.own
            self._relay = self._scratch and store is None
            self._mail = Mail(DriverFiles(folder.absolute()) if self._relay else None)
            stack.callback(self._mail.close)
            super().__init__(
                folder,
                slots=jobs * cpus_per_job,
                gpus=[str(number) for number in range(self._nodes.gpus)],
                start_process=self._start_remote,
                store=store,
                retries=settings.retries,
                job_timeout_s=settings.job_timeout or None,
            )
            self._connection = stack.pop_all()

    def close(self) -> None:
        """Cancel what is left, let it save, and disconnect; may be called twice."""
        try:
            super().close()
        finally:
            self._connection.close()

    def _start_remote(
        self, environment: Mapping[str, str], grant: Grant, folder: Path
    ) -> RemoteProcess:
        """Let Ray start a process on the node of its choice."""
        import ray

        variables = dict(environment)
        if grant.gpus:
            # Ray chooses them.
            del variables[VISIBLE_GPUS]
        settings = HostSettings(
            environment=variables,
            paths=own_paths(),
            scratch=self._scratch,
            relay=self._relay,
        )
        actor = ray.remote(JobHost).options(
            num_cpus=min(grant.cores, self._nodes.most_cores),
            num_gpus=grant.share * len(grant.gpus),
            max_concurrency=METHODS_AT_ONCE,
        )
        return RemoteProcess(actor.remote(settings), environment, self._mail)

    def _end(self, task: Task, event: JobEvent) -> None:
        super()._end(task, event)
        store = task.order.store
        if self._scratch and store is not None:
            with suppress(BriskError):
                Mirror(store, task.name, self.folder / task.name).fetch_records()


@dataclass(frozen=True, slots=True)
class Nodes:
    """What the nodes of a cluster have."""

    cores: int
    most_cores: int
    """Of one node; a job cannot have more."""
    gpus: int

    @classmethod
    def find(cls) -> Nodes:
        """Those that are alive now.

        Raises:
            BriskError: None of them has a core.
        """
        import ray

        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cores = [int(node.get("CPU", 0)) for node in alive]
        if not any(cores):
            raise BriskError("No node of the Ray cluster has cores for jobs.")
        return cls(sum(cores), max(cores), sum(int(node.get("GPU", 0)) for node in alive))
