"""A few threads that share the compiled passes over a batch, without making any object.

The threads meet on a board, an array of numbers that compiled code reads and writes atomically. The
caller of a pass writes there which arrays it is about and how many chunks there are; whoever is
awake takes chunks until none is left, first of its own part and then of others'. Nobody waits for a
thread that has taken nothing, so one that sleeps or has lost its core delays no pass.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol

import numpy as np

from briskrl.core.types import Array, Ints, StepBuffers
from briskrl.envs.kernels import parallel_step as k

CAN_SHARE = hasattr(os, "sched_yield")
"""Whether the system lets compiled code offer its core to others while it waits."""
SPINS = 300
"""Looks for work before a thread goes to sleep, some hundred microseconds in all: waking a sleeper
can take longer than a step."""


class ParallelStep(Protocol):
    """A family's compiled share of a pass, already bound to its state, board and bounds."""

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
        """Lane 0: call for a pass and do it with the others. Others: take part for a while."""
        ...


class Crew:
    """Runs passes in the calling thread and in threads of its own.

    Args:
        num_lanes: Threads, the caller's included.
        share: What they run.
        actions: An array like those that passes will be about.
        out: Buffers like those that passes will be about.
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
        """Do one pass over all chunks."""
        self._wake()
        self._take_part(0, mode, actions, out)

    def stop(self) -> None:
        """End the threads; may be called twice, and passes may still be run afterwards."""
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
            # Whoever stops or calls between these lines finds this thread asleep and wakes it.
            if self._stopped:
                return
            self._go[lane].acquire()


def new_mailbox(num_lanes: int, num_chunks: int) -> Ints:
    """A board on which nothing is called for; every lane owns an equal part of the chunks."""
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
