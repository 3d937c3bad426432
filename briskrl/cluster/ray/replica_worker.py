"""What a worker of Ray Train does: be a replica, and tell the driver through the desk."""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from briskrl.cluster.mirror import Mirror
from briskrl.cluster.ray.relay import RelayStore, StoreAnswer, StoreCall
from briskrl.cluster.ray.replica_desk import FolderFacts
from briskrl.cluster.replicas.messages import Left, Lost, ReplicaMessage
from briskrl.core.errors import StorageError
from briskrl.training.reporter import StopSignal


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What all workers of a run get."""

    setup: Any
    """How replicas begin; see `training.replicas.loop.Setup`."""
    desk: Any
    """Handle of the ReplicaDesk."""
    paths: tuple[str, ...]
    """Where the driver imports its own modules from."""
    version: str
    """Of briskrl, which must be the same everywhere."""
    timeout_s: float
    """How long a replica may keep the others waiting."""


class WorkerLostError(Exception):
    """Raised for Ray Train, which starts all workers again."""


class Flag:
    """Set when the driver asks to stop."""

    requested: StopSignal | None = None


@dataclass(frozen=True)
class DeskStore(RelayStore):
    """The driver's folder, on a machine that does not see it."""

    desk: Any

    def _ask(self, call: StoreCall) -> StoreAnswer:
        import ray

        answer: StoreAnswer = ray.get(self.desk.ask.remote(call))
        return answer


class RayPlace:
    """A worker of Ray Train.

    Args:
        desk: Handle of the ReplicaDesk.
        rank: Number of the replica.
        timeout_s: How long to wait for others.
    """

    def __init__(self, desk: Any, rank: int, timeout_s: float) -> None:
        self._desk = desk
        self._rank = rank
        self._timeout_s = timeout_s
        self._mirror: Mirror | None = None
        self.is_lost = False
        self.stop = Flag()
        if rank == 0:
            threading.Thread(target=self._wait_for_stop, daemon=True).start()

    def connect(self) -> Any:
        """The process group that Ray Train has made, with shared memory on one machine."""
        import torch.distributed as dist

        from briskrl.cluster.replicas.one_machine import share_memory
        from briskrl.cluster.replicas.torch_group import TorchGroup

        group = dist.distributed_c10d._get_default_group()
        return share_memory(TorchGroup(group, group), self._timeout_s)

    def wait_for_folder(self) -> Any:
        """The run folder, or a copy of it where the driver's disk cannot be seen."""
        import ray

        from briskrl.training.storage.run_dir import RunDir

        facts: FolderFacts = ray.get(self._desk.folder.remote())
        path = Path(facts.path)
        if self._rank or _is_here(path, facts):
            return RunDir(path)
        scratch = Path(tempfile.mkdtemp(prefix="briskrl-replicas-")) / path.name
        self._mirror = Mirror(DeskStore("", self._desk), path.name, scratch)
        self._mirror.restore()
        return RunDir(scratch)

    def publish(self) -> None:
        """Copy what is new to the driver's folder; a failure is tried again with the next save."""
        if self._mirror is not None:
            with suppress(StorageError):
                self._mirror.publish()

    def send(self, message: ReplicaMessage) -> None:
        """Send a message to the driver."""
        import ray

        self.is_lost |= isinstance(message, Lost)
        if isinstance(message, Left):
            self.publish()
        ray.get(self._desk.say.remote(self._rank, message))

    def _wait_for_stop(self) -> None:
        import ray

        with suppress(Exception):
            self.stop.requested = ray.get(self._desk.stop.remote())


def work(settings: WorkerSettings) -> None:
    """Be the replica of this worker; the function that Ray Train calls.

    Raises:
        WorkerLostError: Another worker was lost, and all should be started again.
    """
    sys.path += [path for path in settings.paths if path not in sys.path]
    import ray
    import ray.train

    from briskrl import __version__
    from briskrl.cluster.replicas.replica import run_replica

    rank = ray.train.get_context().get_world_rank()
    place = RayPlace(settings.desk, rank, settings.timeout_s)
    if settings.version != __version__:
        _refuse(place, settings)
        return
    setup = settings.setup
    if ray.get(settings.desk.has_folder.remote()):
        setup = replace(setup, resumed=True)
    run_replica(setup, place, place.send, saved=place.publish)
    if not place.is_lost:
        ray.get(settings.desk.end.remote())
    elif not ray.get(settings.desk.is_over.remote()):
        raise WorkerLostError("another replica was lost")


def _refuse(place: RayPlace, settings: WorkerSettings) -> None:
    import ray

    from briskrl import __version__
    from briskrl.cluster.replicas.messages import Failed
    from briskrl.core.errors import BriskError

    error = BriskError(
        f"The worker on {socket.gethostname()} has briskrl {__version__}, and the driver has "
        f"{settings.version}. Install the same version there, in {sys.executable}."
    )
    place.send(Failed(error))
    ray.get(settings.desk.end.remote())


def _is_here(path: Path, facts: FolderFacts) -> bool:
    """Whether the driver's folder is on a disk of this machine, too."""
    with suppress(OSError):
        return (path / "lock").read_bytes() == facts.lock
    return False
