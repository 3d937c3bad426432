"""A few threads that share the compiled passes over a batch, without allocating anything.

The caller posts a pass in a mailbox (see `kernels/parallel_step.py`). Every thread that is awake
takes chunks until none is left, first from its own part and then from the others'. A thread that
has taken no chunk is not waited for, so a sleeping or descheduled thread delays no pass.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol

import numpy as np

from briskrl.core.types import Array, Ints, StepBuffers
from briskrl.envs.kernels import parallel_step as k

CAN_SHARE = hasattr(os, "sched_yield")
"""Whether compiled code can yield its core while it waits."""
SPINS = 300
"""Checks for work before a thread sleeps, some hundred microseconds in all: waking it can take
longer than a step."""


class ParallelStep(Protocol):
    """A family's `parallel_step` kernel, bound to its memory, mailbox and bounds."""

    def __call__(
        self,
        lane: int,
        mode: int,
        spins: int,
        actions: Array,
        obs: Array,
        reward: Array,
        terminated: Array,
        truncated: Array,
        final_obs: Array,
    ) -> None:
        """Lane 0: post a pass and finish it with the others. Others: help for a while."""
        ...


class Crew:
    """Runs passes in the calling thread and in threads of its own.

    Args:
        num_lanes: Threads, including the caller.
        parallel_step: What they run.
        actions: An array with the dtype and shape of later passes.
        out: Buffers with the dtypes and shapes of later passes.
    """

    def __init__(
        self, num_lanes: int, parallel_step: ParallelStep, actions: Ints, out: StepBuffers
    ) -> None:
        self._parallel_step = parallel_step
        self._like = (actions, out)
        self._stopped = False
        self._asleep = [False] * num_lanes
        self._go = [_taken_lock() for _ in range(num_lanes)]
        self._threads = [
            threading.Thread(
                target=self._work, args=(lane,), daemon=True, name=f"brisk-lane-{lane}"
            )
            for lane in range(1, num_lanes)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, actions: Ints, out: StepBuffers, mode: int) -> None:
        """Run one pass over all chunks."""
        self._wake()
        self._take_part(0, mode, actions, out)

    def stop(self) -> None:
        """End the threads; may be called twice, and passes can still run afterwards."""
        self._stopped = True
        self._wake()
        for thread in self._threads:
            thread.join(timeout=1.0)

    def _wake(self) -> None:
        for lane, asleep in enumerate(self._asleep):
            if asleep:
                self._asleep[lane] = False
                self._go[lane].release()

    def _take_part(self, lane: int, mode: int, actions: Ints, out: StepBuffers) -> None:
        self._parallel_step(
            lane,
            mode,
            SPINS,
            actions,
            out.obs,
            out.reward,
            out.terminated,
            out.truncated,
            out.final_obs,
        )

    def _work(self, lane: int) -> None:
        while not self._stopped:
            self._take_part(lane, 0, *self._like)
            self._asleep[lane] = True
            # A stop or a pass between these two lines finds this thread asleep and wakes it.
            if self._stopped:
                return
            self._go[lane].acquire()


def new_mailbox(num_lanes: int, num_chunks: int) -> Ints:
    """A mailbox without a pass; every lane owns an equal part of the chunks."""
    mailbox = np.zeros(k.MAILBOX_LANE + num_lanes * k.CACHE_LINE, np.int64)
    mailbox[k.MAILBOX_LANES], mailbox[k.MAILBOX_CHUNKS] = (
        num_lanes,
        num_chunks,
    )
    cuts = [num_chunks * lane // num_lanes for lane in range(num_lanes + 1)]
    lanes = mailbox[k.MAILBOX_LANE :].reshape(num_lanes, k.CACHE_LINE)
    lanes[:, k.LANE_FIRST] = cuts[:-1]
    lanes[:, k.LANE_END] = lanes[:, k.LANE_NEXT] = cuts[1:]
    return mailbox


def _taken_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock
