"""The replicas of a run as a worker group of Ray Train, which places and restarts them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import Any

from briskrl import __version__
from briskrl.cluster.ray.connect import connect
from briskrl.cluster.ray.driver_files import DriverFiles
from briskrl.cluster.ray.own_paths import own_paths
from briskrl.cluster.ray.relay import StoreAnswer
from briskrl.cluster.ray.replica_desk import AT_ONCE, Asked, FolderFacts, ReplicaDesk
from briskrl.cluster.ray.replica_worker import WorkerSettings, work
from briskrl.cluster.replicas.messages import Built, Note
from briskrl.cluster.replicas.watch import RunWatch
from briskrl.cluster.settings import ExecutorConfig
from briskrl.core.errors import BriskError
from briskrl.training.config import TrainConfig
from briskrl.training.replicas.loop import Setup
from briskrl.training.reporter import StopSignal
from briskrl.training.storage.run_dir import RunDir

_LOOK_S = 0.5
"""Longest time between two looks for a stop request."""
_FOREVER_S = 10**6
"""How long to wait for replicas if there is no limit; Ray Train needs one."""


class RayReplicas:
    """Runs all attempts; Ray Train starts lost workers again by itself.

    Args:
        config: Settings of the run.
        watch: Receives the messages.
        settings: Which cluster, and how often lost workers are started again.
    """

    def __init__(self, config: TrainConfig, watch: RunWatch, settings: ExecutorConfig) -> None:
        self._config = config
        self._watch = watch
        self._settings = settings
        self._stack = ExitStack()
        self._files: DriverFiles | None = None
        self._failure: BaseException | None = None
        self.fewer: int | None = None

    def start(self, *, resumed: bool) -> None:
        """Connect to the cluster and start all replicas.

        Raises:
            BriskError: There is no Ray, or no cluster that can be used.
        """
        config = self._config
        threads = config.num_threads
        cpus = config.replicas * threads
        connection = self._stack.enter_context(connect(self._settings.address, num_cpus=cpus))
        import ray

        desk = ray.remote(ReplicaDesk).options(
            num_cpus=0, max_concurrency=AT_ONCE, scheduling_strategy=_on_this_node()
        )
        self._desk = desk.remote()
        _check_room(config)
        setup = Setup(config, resumed)
        timeout_s = int(self._settings.job_timeout) or _FOREVER_S
        settings = WorkerSettings(setup, self._desk, own_paths(), __version__, timeout_s)
        self._scratch = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="brisk-ray-"))
        trainer = _trainer(config, self._settings, settings, self._scratch, own=connection.own)
        self._thread = Thread(target=self._fit, args=(trainer,), daemon=True)
        self._thread.start()

    def _fit(self, trainer: Any) -> None:
        try:
            trainer.fit()
        except BaseException as error:
            self._failure = error

    def run(
        self,
        open_folder: Callable[[], RunDir],
        stop: Callable[[], StopSignal | None],
        begun: Callable[[], None],
    ) -> None:
        """Watch the replicas until Ray Train has ended."""
        import ray

        told = asked = False
        while True:
            alive = self._thread.is_alive()
            for rank, message in ray.get(self._desk.hear.remote(_LOOK_S if alive else 0.0)):
                self._take(rank, message)
            if self._watch.all_built and not told:
                told = True
                self._open(open_folder())
            if self._watch.begun:
                begun()
            reason = stop()
            if reason is not None and not asked:
                asked = True
                ray.get(self._desk.request_stop.remote(reason))
            if not alive:
                break
        if self._watch.error is None and self._watch.result is None:
            self.fewer = None if asked else self._fewer()
            if self.fewer is None:
                raise BriskError(f"The replicas were lost: {_describe(self._failure)}")

    def _fewer(self) -> int | None:
        """Replicas that there is room for, if the run has begun and may go on with fewer."""
        least = self._settings.min_replicas
        if least is None or self._files is None:
            return None
        most = min(_room(self._config), self._config.replicas - 1)
        possible = (replace(self._config, replicas=n) for n in range(most, least - 1, -1))
        return next((config.replicas for config in possible if not config.check()), None)

    def _take(self, rank: int, message: Any) -> None:
        if isinstance(message, Asked):
            assert self._files is not None
            answer: StoreAnswer = self._files.answer(message.call)
            self._desk.answer.remote(message.number, answer)
            return
        if isinstance(message, Built) and self._watch.begun:
            # Ray Train has started all of them again.
            self._watch.restart()
            self._watch.take(
                0, Note("a replica was lost; all of them continue from the newest checkpoint")
            )
        self._watch.take(rank, message)

    def _open(self, folder: RunDir) -> None:
        import ray

        path = folder.path.absolute()
        self._files = DriverFiles(path.parent)
        facts = FolderFacts(str(path), (path / "lock").read_bytes())
        ray.get(self._desk.open_folder.remote(facts))

    def close(self) -> None:
        """End all replicas and disconnect; may be called twice."""
        self._stack.close()


def _trainer(
    config: TrainConfig,
    settings: ExecutorConfig,
    worker: WorkerSettings,
    scratch: str,
    *,
    own: bool,
) -> Any:
    """The TorchTrainer of Ray Train."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    gpu = config.device == "cuda"
    # gloo would listen on the address of the host's name.
    variables = {"GLOO_SOCKET_IFNAME": "lo"} if own and sys.platform == "linux" else {}
    return TorchTrainer(
        partial(work, worker),
        torch_config=TorchConfig(
            backend="cpu:gloo,cuda:nccl" if gpu else "gloo",
            timeout_s=worker.timeout_s,
        ),
        scaling_config=ScalingConfig(
            num_workers=config.replicas,
            use_gpu=gpu,
            resources_per_worker={"CPU": config.num_threads} | ({"GPU": 1} if gpu else {}),
        ),
        run_config=RunConfig(
            name="briskrl",
            # Ray Train keeps its own records there; checkpoints are ours.
            storage_path=scratch,
            failure_config=FailureConfig(
                max_failures=settings.retries,
                # Among these failures: no room for all workers within a minute.
                controller_failure_limit=-1 if settings.min_replicas is None else 0,
            ),
            worker_runtime_env={"env_vars": variables},
        ),
    )


def _check_room(config: TrainConfig) -> None:
    """Check that the cluster can ever run all replicas at the same time.

    Raises:
        BriskError: It has too few cores.
    """
    import ray

    if _room(config) < config.replicas:
        needed = config.replicas * config.num_threads
        cores = int(ray.cluster_resources().get("CPU", 0))
        raise BriskError(
            f"{config.replicas} replicas with {config.num_threads} threads each need {needed} "
            f"cores at the same time, and the Ray cluster has {cores}."
        )


def _room(config: TrainConfig) -> int:
    """Replicas that the machines of the cluster have cores for."""
    import ray

    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return sum(int(machine.get("CPU", 0)) // config.num_threads for machine in machines)


def _on_this_node() -> Any:
    """Where the driver is: the loss of another node does not end the run."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)


def _describe(failure: BaseException | None) -> str:
    if failure is None:
        return "Ray Train has ended without a result"
    return " ".join(str(failure).split())[-300:] or type(failure).__name__
