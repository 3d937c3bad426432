"""Let replicas that connect over the network share memory if all of them are on one machine."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from briskrl.cluster.replicas.shared_memory import SharedMemoryGroup, block_size
from briskrl.cluster.replicas.torch_group import TorchGroup
from briskrl.core.anonymous_file import anonymous_file
from briskrl.nets.replica_group import ReplicaGroup

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = "/proc/self/ns/pid"


def share_memory(group: TorchGroup, timeout_s: float) -> ReplicaGroup:
    """The same replicas with shared memory; as they are, if they cannot have it.

    The first one makes memory without a name, and the others open it through that process. Replicas
    in containers of their own count as on different machines.

    Args:
        group: All replicas; every one has to call this.
        timeout_s: How long to wait for other replicas in exchanges.

    Raises:
        ReplicaLostError: Others did not come in time.
    """
    memory = _make(group) if group.rank == 0 else _open(group.receive(0), block_size(group.size))
    try:
        found = group.gather(np.array([memory is not None], np.int64))
        if memory is None or not found.all():
            return group
        return SharedMemoryGroup(group, memory, timeout_s)
    finally:
        if memory is not None:
            os.close(memory)


def this_machine() -> str | None:
    """Names the machine since its last start, and its processes as seen here; None if unknown."""
    with suppress(OSError):
        return f"{_BOOT.read_text().strip()} {os.readlink(_PROCESSES)}"
    return None


def _make(group: TorchGroup) -> int:
    """Make the memory, and let the others know where it is."""
    memory = anonymous_file("briskrl-replicas", block_size(group.size))
    place = {"machine": this_machine(), "path": f"/proc/{os.getpid()}/fd/{memory}"}
    for rank in range(1, group.size):
        group.send(json.dumps(place).encode(), rank)
    return memory


def _open(message: bytes, size: int) -> int | None:
    """The memory of the first replica; None if it is not on this machine."""
    place = json.loads(message)
    if place["machine"] is None or place["machine"] != this_machine():
        return None
    with suppress(OSError):
        memory = os.open(place["path"], os.O_RDWR | os.O_CLOEXEC)
        if os.fstat(memory).st_size == size:
            return memory
        os.close(memory)
    return None
