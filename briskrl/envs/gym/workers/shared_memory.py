"""The block of memory that the trainer shares with its worker processes.

The block has no name in any file system and lives as long as a process has it open, so nothing is
left behind however the processes end. Each worker has a queue of envs to step, a ring in the block.
The trainer counts the envs it has pushed and the worker those it has finished, so that two counters
describe the queue and no step is pickled.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, fields
from itertools import pairwise
from math import prod
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.anonymous_file import anonymous_file
from briskrl.core.spec import EnvSpec
from briskrl.core.types import ALIGNMENT, Array, StepBuffers, action_layout
from briskrl.envs.gym.episode_records import EpisodeRows

Layout = dict[str, tuple[tuple[int, ...], Any]]

STEP_FIELDS = tuple(field.name for field in fields(StepBuffers))
EPISODE_FIELDS = tuple(field.name for field in fields(EpisodeRows))

LINE = ALIGNMENT // 8
"""Words of one cache line; words written by different processes are on different lines."""

fence = Lock().locked
"""A memory fence: later reads do not overtake earlier writes.

Querying a lock is two atomic operations in C. Without them, two processes that each set a flag and
then read the other's may both miss it, because writes become visible late.
"""


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """Everything that determines the layout of a block; both sides compute the same layout."""

    spec: EnvSpec
    num_envs: int
    num_workers: int

    def bounds(self) -> list[tuple[int, int]]:
        """(low, high) of each worker, which steps the envs low..high-1; as even as possible."""
        edges = [w * self.num_envs // self.num_workers for w in range(self.num_workers + 1)]
        return list(pairwise(edges))


class SharedBlock:
    """The arrays of one block, as views of shared memory.

    Step data has one row per env, written by the env's worker while the env is queued and by the
    trainer otherwise. Counters are memoryviews, because reading an element is faster than in NumPy.
    """

    def __init__(self, plan: BlockPlan, fd: int | None = None) -> None:
        """Create a new block, or map the one that the trainer has passed as `fd`."""
        layout = _layout(plan)
        sizes = [
            _padded(prod(shape) * np.dtype(dtype).itemsize) for shape, dtype in layout.values()
        ]
        self.fd = anonymous_file("briskrl-envs", sum(sizes)) if fd is None else fd
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
        """(N,): one ring of env indices per worker, in the rows of its envs."""
        self.pushed = _words(arrays["pushed"])
        """Total number of envs that the trainer has queued for each worker."""
        self.finished = _words(arrays["finished"])
        """Total number of envs that each worker has stepped."""
        self.asleep = _words(arrays["asleep"])
        """Whether each worker, and in the last place the trainer, sleeps and must be woken."""
        self.progress = _words(arrays["progress"])
        """Changes while a worker makes its environments or executes a command; 0 before that."""
        self.target = _words(arrays["target"])
        """The sum of `finished` at which a sleeping trainer must be woken."""

    def rows(self, low: int, high: int) -> StepBuffers:
        """The step data of the envs low..high-1."""
        return StepBuffers(**{name: array[low:high] for name, array in self._steps.items()})

    def episode_rows(self, low: int, high: int) -> EpisodeRows:
        """Episode statistics of the envs low..high-1."""
        return EpisodeRows(**{name: array[low:high] for name, array in self._episodes.items()})

    def all_rows(self) -> dict[str, Array]:
        """Views of all arrays with one row per env, except actions and queue, by name."""
        return self._steps | {"episode_" + name: array for name, array in self._episodes.items()}

    def close(self) -> None:
        """Close the descriptor; the memory is freed with the last view of it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _layout(plan: BlockPlan) -> Layout:
    """Shape and dtype of every array, in order."""
    spec, count, workers = plan.spec, plan.num_envs, plan.num_workers
    action_shape, action_dtype = action_layout(spec)
    obs = ((count, *spec.obs.shape), spec.obs.dtype)
    layout: Layout = {
        "pushed": ((workers, LINE), np.int64),
        "finished": ((workers, LINE), np.int64),
        "asleep": ((workers + 1, LINE), np.int64),
        "progress": ((workers, LINE), np.int64),
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
