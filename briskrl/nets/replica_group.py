"""What several processes that train one network together need of each other."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray
from torch import Tensor


class ReplicaGroup(Protocol):
    """The replicas of one run, as one of them sees them.

    All methods but `send` and `receive` are collective: every replica calls them in the same order,
    with arguments of the same shape, and gets the same bits.
    """

    rank: int
    """Number of this replica, from 0."""
    size: int
    """Number of replicas, 2 or more."""

    def average(self, tensor: Tensor) -> None:
        """Replace a contiguous tensor by its mean over all replicas."""
        ...

    def gather(self, values: NDArray[Any]) -> NDArray[Any]:
        """The arrays of all replicas, (size, *shape), by rank."""
        ...

    def send(self, data: bytes, rank: int) -> None:
        """Send bytes of any number to another replica, which must `receive` them."""
        ...

    def receive(self, rank: int) -> bytes:
        """What another replica sends."""
        ...

    def take_waited_ns(self) -> int:
        """Nanoseconds spent in `average` and `gather` since the last call."""
        ...


def own_stream(name: str, group: ReplicaGroup | None) -> str:
    """Name of a random stream that every replica has for itself; that of a single process first."""
    return stream_of(name, 0 if group is None else group.rank)


def stream_of(name: str, rank: int) -> str:
    """Name of the random stream that the replica of this number has for itself."""
    return f"{name} of replica {rank}" if rank else name
