"""Replicas that are connected by torch.distributed: gloo between CPUs, NCCL between GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import torch
import torch.distributed
from torch import Tensor

from briskrl.core.types import Array
from briskrl.parallel.kernels.exchange import mean_rows

LOOPBACK = "127.0.0.1"
_ROOMS = 4
"""Shapes for which the room to gather is kept."""
dist: Any = torch.distributed
"""Parts of it have no types."""


class ReplicaLostError(Exception):
    """Another replica has ended, or does not answer."""


class TorchGroup:
    """A ReplicaGroup that sends over the network.

    Sums are taken in the order of the ranks, so that they have the same bits wherever replicas are.

    Args:
        cpu: Process group of gloo.
        gpu: That of NCCL, for tensors on GPUs.
    """

    def __init__(self, cpu: Any, gpu: Any = None) -> None:
        self._cpu, self._gpu = cpu, gpu
        self.rank: int = cpu.rank()
        self.size: int = cpu.size()
        self._waited_ns = 0
        self._rooms: dict[tuple[Any, ...], Tensor] = {}

    def average(self, tensor: Tensor) -> None:
        """See ReplicaGroup."""
        begin = perf_counter_ns()
        if tensor.is_cuda:
            with _losses():
                self._gpu.allreduce([tensor], dist.AllreduceOptions()).wait()
            tensor.div_(self.size)
        else:
            own = tensor.numpy()
            mean_rows(self._all(own), own)
        self._waited_ns += perf_counter_ns() - begin

    def gather(self, values: Array) -> Array:
        """See ReplicaGroup."""
        begin = perf_counter_ns()
        found = self._all(values).copy()
        self._waited_ns += perf_counter_ns() - begin
        return found

    def _all(self, values: Array) -> Array:
        """The arrays of all replicas, valid until the next call with an array of this shape."""
        own = torch.from_numpy(np.ascontiguousarray(values))
        room = self._room(own)
        with _losses():
            self._cpu.allgather([list(room.unbind(0))], [own]).wait()
        found: Array = room.numpy()
        return found

    def _room(self, own: Tensor) -> Tensor:
        """Where tensors like this one are gathered."""
        key = (own.dtype, own.shape)
        if key not in self._rooms:
            if len(self._rooms) == _ROOMS:
                self._rooms.pop(next(iter(self._rooms)))
            self._rooms[key] = torch.zeros((self.size, *own.shape), dtype=own.dtype)
        return self._rooms[key]

    def send(self, data: bytes, rank: int) -> None:
        """See ReplicaGroup."""
        content = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        with _losses():
            for tensor in (torch.tensor([len(data)]), content):
                self._cpu.send([tensor], rank, 0).wait()

    def receive(self, rank: int) -> bytes:
        """See ReplicaGroup."""
        size = torch.zeros(1, dtype=torch.int64)
        with _losses():
            self._cpu.recv([size], rank, 0).wait()
            content = torch.zeros(int(size), dtype=torch.uint8)
            self._cpu.recv([content], rank, 0).wait()
        return content.numpy().tobytes()

    def take_waited_ns(self) -> int:
        """See ReplicaGroup."""
        waited, self._waited_ns = self._waited_ns, 0
        return waited


@contextmanager
def _losses() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        text = str(error).splitlines()[0]
        # gloo begins with a place in its source.
        cause = "no answer in time" if "timed out" in text.lower() else text.rpartition("] ")[2]
        raise ReplicaLostError(cause) from error


def join_local_group(meeting: Path, rank: int, size: int, timeout_s: float) -> TorchGroup:
    """Connect to the other replicas on this machine, over the loopback interface only.

    Args:
        meeting: File in a private folder where replicas find each other.
        rank: Number of this replica.
        size: Number of replicas.
        timeout_s: How long to wait for the others, now and later.

    Raises:
        ReplicaLostError: They did not come.
    """
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=LOOPBACK)]
    options._timeout = timedelta(seconds=timeout_s)
    with _losses():
        store = dist.FileStore(str(meeting), size)
        store.set_timeout(timedelta(seconds=timeout_s))
        cpu = dist.ProcessGroupGloo(dist.PrefixStore("cpu", store), rank, size, options)
        return TorchGroup(cpu, _join_gpus(dist.PrefixStore("gpu", store), rank, size, timeout_s))


def _join_gpus(store: Any, rank: int, size: int, timeout_s: float) -> Any:
    if not torch.cuda.is_available() or not dist.is_nccl_available():
        return None
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=timeout_s)
    return dist.ProcessGroupNCCL(store, rank, size, options)
