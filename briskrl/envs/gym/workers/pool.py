"""The workers of one batch of environments: queues, waiting, and noticing what goes wrong.

Waiting is looking at counters for a moment and then sleeping: steps of cheap environments are over
before a sleeper would be awake, and a trainer that waits for slow ones must not take a core from
them. While asleep it hears of finished steps, of failures and of dead workers alike.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.cpu import usable_cores
from briskrl.core.types import Ints
from briskrl.envs.gym.env_factory import EnvRecipe
from briskrl.envs.gym.patience import SPIN_S, Patience
from briskrl.envs.gym.workers import protocol as wire
from briskrl.envs.gym.workers.shared_memory import Plan, SharedBlock, fence
from briskrl.envs.gym.workers.worker_process import Handle, WorkerLost, stop_all

BOOT_S = 120.0
"""Seconds within which a worker has imported what it needs and made its environments."""
GRACE_S = 2.0
"""Seconds that workers have to close their environments; then they are killed."""
WATCH_S = 0.25
"""Longest time between two looks at what is wrong."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that went wrong in a worker."""

    worker: int
    failure: wire.Failure | None = None
    """What the worker says; None if it cannot say anything any more."""
    stuck: bool = False
    """Whether it still runs but does not get on."""


class WorkerPool:
    """Worker processes and the block they share with the trainer."""

    def __init__(self, recipe: EnvRecipe, plan: Plan, *, env_timeout_s: float) -> None:
        """Start all workers at once; `boot` waits for them."""
        self.plan = plan
        self.block = SharedBlock(plan)
        self.bounds = plan.bounds()
        self.handles: list[Handle] = []
        self._recipe = recipe
        self._timeout_s = env_timeout_s
        # More workers than cores would look at each other's expense.
        can_look = hasattr(os, "sched_yield") and plan.num_workers <= usable_cores()
        self._spin_s = SPIN_S if can_look else 0.0
        self._patience = Patience(self._spin_s)
        self._closed = False
        # A process forked from this one has copies of everything here, but no workers.
        self._pid = os.getpid()
        self._wake, self._wake_end = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._wake_end, False)
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._owner = np.repeat(np.arange(plan.num_workers), np.diff(self.bounds).ravel())
        self._rings = [self.block.queue[low:high] for low, high in self.bounds]
        self._in_order = False
        self._taken = [0] * plan.num_workers
        self._delivered = 0
        self._watched = 0.0
        self._progress = [0] * plan.num_workers
        self._stalled_s = [0.0] * plan.num_workers
        try:
            for index in range(plan.num_workers):
                self.handles.append(self._start_worker(index))
        except BaseException:
            self.close()
            raise

    def push_all(self) -> None:
        """Queue a step of every env, each worker's in order."""
        block = self.block
        for index, ring in enumerate(self._rings):
            if not self._in_order:
                low, high = self.bounds[index]
                ring[:] = np.roll(np.arange(low, high), block.pushed[index] % len(ring))
            block.pushed[index] += len(ring)
        self._in_order = True
        self._rouse()

    def push(self, ids: Ints) -> None:
        """Queue a step of the envs `ids` (M,), none of which may be queued already."""
        block = self.block
        self._in_order = False
        owners = self._owner[ids]
        ids = ids[np.argsort(owners, kind="stable")]
        ends = np.cumsum(np.bincount(owners, minlength=len(self._rings)))
        begin = 0
        for index, (ring, end) in enumerate(zip(self._rings, ends.tolist(), strict=True)):
            if end > begin:
                at = block.pushed[index] % len(ring)
                room = min(len(ring) - at, end - begin)
                ring[at : at + room] = ids[begin : begin + room]
                ring[: end - begin - room] = ids[begin + room : end]
                block.pushed[index] += end - begin
                begin = end
        self._rouse()

    def wait(self, count: int, deadline: float | None) -> Fault | None:
        """Wait until `count` envs have been stepped that were not taken yet, or the time is over.

        Returns something that went wrong instead, if anything has.
        """
        need = self._delivered + count
        if sum(self.block.finished) < need and not self._look(need):
            return self._wait_asleep(need, deadline)
        fence()
        return self._watch() if time.perf_counter() - self._watched > WATCH_S else None

    def take(self, ids: Ints) -> int:
        """Write the envs stepped since the last call to the beginning of `ids`; how many."""
        finished, count = self.block.finished, 0
        for index, ring in enumerate(self._rings):
            begin, size = self._taken[index], len(ring)
            fresh = finished[index] - begin
            if not fresh:
                continue
            at = begin % size
            room = min(size - at, fresh)
            ids[count : count + room] = ring[at : at + room]
            ids[count + room : count + fresh] = ring[: fresh - room]
            self._taken[index] = begin + fresh
            count += fresh
        self._delivered += count
        return count

    def take_all(self) -> None:
        """Take every env at once, after all of them have been stepped."""
        for index in range(len(self._taken)):
            self._taken[index] = self.block.finished[index]
        self._delivered = sum(self._taken)

    def waiting(self, worker: int) -> NDArray[np.int64]:
        """Envs of a worker that are queued and not stepped, the one being stepped first; a copy."""
        return self._between(worker, self.block.finished[worker], self.block.pushed[worker])

    def untaken(self, worker: int) -> NDArray[np.int64]:
        """Envs of a worker that were stepped and not taken yet; a copy."""
        return self._between(worker, self._taken[worker], self.block.finished[worker])

    def ask(self, worker: int, name: str, *arguments: Any) -> Any:
        """Call a method of a worker's host; its answer, which may be a Failure.

        Raises:
            WorkerLost: It is dead, or does not answer in time.
        """
        self.handles[worker].command(name, *arguments)
        return self.answer(worker)

    def answer(self, worker: int) -> Any:
        """What a worker says to a command, which may be a Failure.

        Raises:
            WorkerLost: It is dead, or does not answer in time.
        """
        low, high = self.bounds[worker]
        return self.handles[worker].answer(self._timeout_s * (high - low))

    def boot(self, worker: int) -> wire.Failure | None:
        """Wait until a worker has made its environments; what it says if it cannot.

        Raises:
            WorkerLost: It is dead, or takes too long.
        """
        answer = self.handles[worker].answer(max(BOOT_S, self._timeout_s))
        return answer if isinstance(answer, wire.Failure) else None

    def replace(self, worker: int) -> None:
        """Kill a worker and start another in its place; whatever was queued counts as stepped."""
        self.bury(worker)
        block = self.block
        block.finished[worker] = block.pushed[worker]
        block.asleep[worker] = 0
        self._stalled_s[worker] = 0.0
        self.handles[worker] = self._start_worker(worker)

    def bury(self, worker: int) -> None:
        """Make sure that a worker is dead and no longer listened to."""
        handle = self.handles[worker]
        if handle.socket.fileno() >= 0:
            self._poll.unregister(handle.socket)
        handle.kill()

    def close(self) -> None:
        """End all workers within five seconds; may be called twice, also in a signal handler."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        try:
            stop_all(self.handles, GRACE_S)
        finally:
            for fd in (self._wake, self._wake_end):
                os.close(fd)
            self.block.close()

    def _start_worker(self, index: int) -> Handle:
        handle = Handle(index, block=self.block.fd, wake=self._wake_end)
        self._poll.register(handle.socket, select.POLLIN)
        # If it is dead already, `boot` will notice.
        with suppress(WorkerLost):
            handle.boot(self._recipe, self.plan, self._spin_s)
        return handle

    def _rouse(self) -> None:
        """Wake up the workers that sleep though they have work."""
        fence()
        block = self.block
        for index, handle in enumerate(self.handles):
            if block.asleep[index] and block.pushed[index] != block.finished[index]:
                block.asleep[index] = 0
                # Whoever waits for the envs of a dead one will notice.
                with suppress(WorkerLost):
                    handle.wake()

    def _look(self, need: int) -> bool:
        """Look for a moment whether enough envs have been stepped."""
        spin_s = self._patience.spin_s()
        if not spin_s:
            return False
        finished, clock = self.block.finished, time.perf_counter
        begin = now = clock()
        while sum(finished) < need and now - begin < spin_s:
            os.sched_yield()
            now = clock()
        found = sum(finished) >= need
        self._patience.learn(now - begin, found=found)
        return found

    def _wait_asleep(self, need: int, deadline: float | None) -> Fault | None:
        block = self.block
        heard = False
        while True:
            now = time.perf_counter()
            if heard or now - self._watched > min(WATCH_S, self._timeout_s / 8):
                fault = self._watch()
                if fault is not None:
                    return fault
            if deadline is not None and now >= deadline:
                return None
            block.target[0] = need
            block.asleep[-1] = 1
            fence()
            if sum(block.finished) < need:
                heard = self._hear(now, deadline)
            block.asleep[-1] = 0
            if sum(block.finished) >= need:
                fence()
                return None

    def _hear(self, now: float, deadline: float | None) -> bool:
        """Sleep until something happens; whether a worker said something or died."""
        pause_s = min(WATCH_S, self._timeout_s / 8)
        if deadline is not None:
            pause_s = min(pause_s, deadline - now)
        heard = self._poll.poll(1000 * pause_s)
        for fd, _ in heard:
            if fd == self._wake:
                os.read(fd, 64)
        # Workers say nothing unasked unless something is wrong.
        return any(fd != self._wake for fd, _ in heard)

    def _watch(self) -> Fault | None:
        """Look for workers that have failed, died or do not get on."""
        now = time.perf_counter()
        elapsed, self._watched = now - self._watched, now
        heard = {fd for fd, _ in self._poll.poll(0)}
        for index, handle in enumerate(self.handles):
            if handle.socket.fileno() in heard:
                return self._listen(index)
        return self._find_stuck(elapsed)

    def _listen(self, worker: int) -> Fault:
        try:
            answer = self.handles[worker].answer(self._timeout_s)
        except WorkerLost as lost:
            return Fault(worker, stuck=lost.stuck)
        assert isinstance(answer, wire.Failure)
        return Fault(worker, answer)

    def _find_stuck(self, elapsed: float) -> Fault | None:
        # The trainer may have been away or suspended, together with its workers; so no single look
        # counts for long.
        elapsed = min(elapsed, self._timeout_s / 4)
        block = self.block
        for index in range(len(self.handles)):
            done = block.finished[index]
            if done != self._progress[index] or done == block.pushed[index]:
                self._progress[index] = done
                self._stalled_s[index] = 0.0
                continue
            self._stalled_s[index] += elapsed
            if self._stalled_s[index] >= self._timeout_s:
                return Fault(index, stuck=True)
        return None

    def _between(self, worker: int, begin: int, end: int) -> NDArray[np.int64]:
        ring = self._rings[worker]
        found: NDArray[np.int64] = ring[np.arange(begin, end) % len(ring)]
        return found
