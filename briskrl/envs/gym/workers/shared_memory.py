"""The one block of memory that a trainer shares with the workers that step its environments.

The block has no name in any file system: it lives as long as a process has it open, so nothing is
left behind however the processes end. Each worker has a queue of envs to step, which is a ring in
the block. The trainer counts what it has pushed, the worker what it has finished, so two counters
tell everything and nothing is pickled per step.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass, fields
from itertools import pairwise
from math import prod
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.spec import EnvSpec
from briskrl.core.types import ALIGNMENT, Array, StepBuffers, action_layout
from briskrl.envs.gym.env_group import EpisodeRows

Layout = dict[str, tuple[tuple[int, ...], Any]]

STEP_FIELDS = tuple(field.name for field in fields(StepBuffers))
EPISODE_FIELDS = tuple(field.name for field in fields(EpisodeRows))

LINE = ALIGNMENT // 8
"""Words of one cache line: what different processes write lies on different lines."""

fence = Lock().locked
"""Keeps what is read after it from overtaking what was written before it.

Asking a lock is two atomic operations in C. Without them, two processes that each say "I am here"
and then look for the other may both miss the other, because writes take effect late.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What decides the layout of a block; both sides compute the same from it."""

    spec: EnvSpec
    num_envs: int
    num_workers: int

    def bounds(self) -> list[tuple[int, int]]:
        """The envs low..high-1 of each worker, as even as can be."""
        edges = [w * self.num_envs // self.num_workers for w in range(self.num_workers + 1)]
        return list(pairwise(edges))


class SharedBlock:
    """The arrays of one block, as views of shared memory.

    Step data has one row per env, written by the env's worker while the env is queued and by the
    trainer otherwise. Counters are memoryviews: their elements are read faster than an array's.
    """

    def __init__(self, plan: Plan, fd: int | None = None) -> None:
        """Make a new block, or map the one that a trainer has passed on as `fd`."""
        layout = _layout(plan)
        sizes = [
            _padded(prod(shape) * np.dtype(dtype).itemsize) for shape, dtype in layout.values()
        ]
        self.fd = _anonymous_file(sum(sizes)) if fd is None else fd
        memory = mmap.mmap(self.fd, sum(sizes))
        arrays: dict[str, Array] = {}
        offset = 0
        for (name, (shape, dtype)), size in zip(layout.items(), sizes, strict=True):
            arrays[name] = np.ndarray(shape, dtype, memory, offset)
            offset += size
        self._steps = {name: arrays[name] for name in STEP_FIELDS if name in arrays}
        self._episodes = {name: arrays["episode_" + name] for name in EPISODE_FIELDS}
        self.steps = StepBuffers(**self._steps)
        self.episodes = EpisodeRows(**self._episodes)
        self.actions = arrays["actions"]
        """(N,) or (N, D)"""
        self.queue: NDArray[np.int64] = arrays["queue"]
        """(N,): one ring per worker, in the places of its envs; holds indices of envs."""
        self.pushed = _words(arrays["pushed"])
        """How many envs the trainer has put into each worker's ring, ever."""
        self.finished = _words(arrays["finished"])
        """How many of them have been stepped."""
        self.asleep = _words(arrays["asleep"])
        """Whether each worker, and last the trainer, has to be woken."""
        self.target = _words(arrays["target"])
        """The sum of `finished` at which the trainer wants to be woken."""

    def rows(self, low: int, high: int) -> StepBuffers:
        """The step data of the envs low..high-1."""
        return StepBuffers(**{name: array[low:high] for name, array in self._steps.items()})

    def episode_rows(self, low: int, high: int) -> EpisodeRows:
        """What is told about the ended episodes of the envs low..high-1."""
        return EpisodeRows(**{name: array[low:high] for name, array in self._episodes.items()})

    def all_rows(self) -> dict[str, Array]:
        """Everything with one row per env but actions and queues, by name; views."""
        return self._steps | {"episode_" + name: array for name, array in self._episodes.items()}

    def close(self) -> None:
        """Give the descriptor back; the memory goes when the last view of it does."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _layout(plan: Plan) -> Layout:
    """Shape and dtype of every array, in order."""
    spec, count, workers = plan.spec, plan.num_envs, plan.num_workers
    action_shape, action_dtype = action_layout(spec)
    obs = ((count, *spec.obs.shape), spec.obs.dtype)
    layout: Layout = {
        "pushed": ((workers, LINE), np.int64),
        "finished": ((workers, LINE), np.int64),
        "asleep": ((workers + 1, LINE), np.int64),
        "target": ((1, LINE), np.int64),
        "queue": ((count,), np.int64),
        "actions": ((count, *action_shape), action_dtype),
        "obs": obs,
        "reward": ((count,), np.float32),
        "terminated": ((count,), np.bool_),
        "truncated": ((count,), np.bool_),
        "final_obs": obs,
    }
    if spec.has_mask:
        layout["mask"] = layout["final_mask"] = ((count, spec.mask_width), np.bool_)
    like = EpisodeRows.allocate(1)
    for name in EPISODE_FIELDS:
        layout["episode_" + name] = ((count,), getattr(like, name).dtype)
    return layout


def _words(lines: NDArray[np.int64]) -> memoryview:
    """The first word of each cache line."""
    return lines.reshape(-1).data[::LINE]


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _anonymous_file(size: int) -> int:
    """A descriptor of zeroed memory that nobody else can find."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("briskrl-envs", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile(buffering=0) as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd
