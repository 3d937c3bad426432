"""How networks are computed: device, precision, engine and threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor

from briskrl.core.types import Array
from briskrl.nets.replica_group import ReplicaGroup

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Compute:
    """The choices for all networks of a run."""

    device: torch.device
    amp: bool = False
    """Forward passes of updates in half precision: float16 on CUDA, bfloat16 elsewhere."""
    compile: bool = False
    """Networks go through torch.compile."""
    engine: Literal["auto", "torch", "fused"] = "torch"
    """The engine; auto means that it is not chosen yet."""
    threads: int = 1
    """Threads of the fused engine."""
    overlap: bool = False
    """Acting and updates run at the same time."""
    replicas: ReplicaGroup | None = None
    """The replicas that train the networks together; None if there is one process only."""

    @property
    def num_replicas(self) -> int:
        """Processes that train the networks together."""
        return 1 if self.replicas is None else self.replicas.size

    @property
    def on_cpu(self) -> bool:
        """Whether tensors and arrays can share their memory."""
        return self.device.type == "cpu"

    @property
    def fused_refusal(self) -> str | None:
        """Why the fused engine cannot be used for any network; None if it can."""
        if not self.on_cpu:
            return f"it computes on the CPU, and the device is {self.device.type}"
        if self.amp or self.compile:
            return "it has no half precision and no torch.compile"
        return None

    @property
    def scales_loss(self) -> bool:
        """Whether the loss must be scaled to keep gradients from underflowing in half precision."""
        return self.amp and self.half == torch.float16

    @property
    def half(self) -> torch.dtype:
        """The half precision of `amp`."""
        return torch.float16 if self.device.type == "cuda" else torch.bfloat16

    def precision(self) -> AbstractContextManager[object]:
        """The context of the forward pass of an update."""
        if self.amp:
            return torch.autocast(self.device.type, dtype=self.half)
        return nullcontext()

    def compiled(self, function: Function) -> Function:
        """The function, compiled by torch on its first call if `compile` is set."""
        if not self.compile:
            return function
        return cast("Function", torch.compile(function))

    def tensor(self, array: Array) -> Tensor:
        """An array as a tensor: a view on the CPU, a copy on an accelerator.

        Copies to CUDA go through pinned memory and do not wait; torch's allocator keeps that
        memory from being reused while they are under way.
        """
        tensor = torch.from_numpy(array)
        if self.on_cpu:
            return tensor
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(self.device)


def pieces(size: int, count: int) -> Iterator[slice]:
    """Split `size` rows into `count` slices of nearly equal length, none of them empty."""
    count = min(size, count)
    for i in range(count):
        yield slice(size * i // count, size * (i + 1) // count)
