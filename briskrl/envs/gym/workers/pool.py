"""The worker processes of one batch of environments: queues, waiting, and fault detection.

The trainer waits by spinning on counters for a moment and then sleeping. Cheap environments finish
their steps before a sleeping trainer would wake up, and a trainer that waits for slow ones must not
take a core from them. Finished steps, failures and dead workers all wake a sleeping trainer.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.cpu import usable_cores
from briskrl.core.types import Ints
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.workers import protocol
from briskrl.envs.gym.workers.shared_memory import BlockPlan, SharedBlock, fence
from briskrl.envs.gym.workers.worker_process import WorkerLost, WorkerProcess, stop_all
from briskrl.parallel.backoff import SPIN_S, SpinBackoff

STARTUP_S = 120.0
"""Timeout in seconds for a worker to start and import packages, if env_timeout is not longer."""
GRACE_S = 2.0
"""Seconds that workers have to close their environments before they are killed."""
CHECK_S = 0.25
"""Longest time between two checks of the workers, in seconds."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed, dead or stuck worker."""

    worker: int
    failure: protocol.Failure | None = None
    """The worker's own report; None if it died or is stuck."""
    stuck: bool = False
    """Whether the process is alive but makes no progress."""


class WorkerPool:
    """Worker processes and the memory block they share with the trainer."""

    def __init__(self, factory: EnvFactory, plan: BlockPlan, *, env_timeout_s: float) -> None:
        """Start all workers in parallel; `answers` waits for them."""
        self.plan = plan
        self.block = SharedBlock(plan)
        self.bounds = plan.bounds()
        self.processes: list[WorkerProcess] = []
        self._factory = factory
        self._timeout_s = env_timeout_s
        # With more workers than cores, a spinning worker would take the core of another.
        can_spin = hasattr(os, "sched_yield") and plan.num_workers <= usable_cores()
        self._spin_s = SPIN_S if can_spin else 0.0
        self._backoff = SpinBackoff(self._spin_s)
        self._closed = False
        # A process forked from this one has a copy of the pool, but must not stop the workers.
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
        self._checked_at = 0.0
        self._progress = [0] * plan.num_workers
        self._stalled_s = [0.0] * plan.num_workers
        try:
            for index in range(plan.num_workers):
                self.processes.append(self._start_worker(index))
        except BaseException:
            self.close()
            raise

    def push_all(self) -> None:
        """Queue a step of every env, in order."""
        block = self.block
        for index, ring in enumerate(self._rings):
            if not self._in_order:
                low, high = self.bounds[index]
                ring[:] = np.roll(np.arange(low, high), block.pushed[index] % len(ring))
            block.pushed[index] += len(ring)
        self._in_order = True
        self._wake_sleepers()

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
        self._wake_sleepers()

    def wait(self, count: int, deadline: float | None) -> Fault | None:
        """Wait until `count` envs have been stepped and not taken, or until the deadline.

        Returns early with a fault if a worker has failed, died or got stuck.
        """
        need = self._delivered + count
        if sum(self.block.finished) < need and not self._spin(need):
            return self._sleep_until(need, deadline)
        fence()
        return self._check_workers() if time.perf_counter() - self._checked_at > CHECK_S else None

    def take(self, ids: Ints) -> int:
        """Write the M envs stepped since the last call to `ids[:M]`; returns M."""
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
        """Take all envs, after all of them have been stepped."""
        for index in range(len(self._taken)):
            self._taken[index] = self.block.finished[index]
        self._delivered = sum(self._taken)

    def waiting(self, worker: int) -> NDArray[np.int64]:
        """A copy of the envs queued for a worker and not finished, the current one first."""
        return self._between(worker, self.block.finished[worker], self.block.pushed[worker])

    def untaken(self, worker: int) -> NDArray[np.int64]:
        """A copy of the envs of a worker that were stepped and not taken yet."""
        return self._between(worker, self._taken[worker], self.block.finished[worker])

    def call(self, worker: int, name: str, *arguments: Any) -> Any:
        """Call a method of a worker's `EnvGroup`; returns its result, or a Fault."""
        # If the worker is lost, reading its answer fails too.
        with suppress(WorkerLost):
            self.processes[worker].command(name, *arguments)
        return self.answer(worker)

    def answer(self, worker: int) -> Any:
        """What `answers` yields for a single worker."""
        return next(self.answers([worker]))[1]

    def answers(self, workers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Each worker with its result as soon as it comes, or with a Fault.

        The result is that of the command sent last, or True once the environments are made. Slow
        workers do not delay the news that another one has failed, died or got stuck.
        """
        waiting = dict.fromkeys(workers, 0.0)
        progress = {worker: self.block.progress[worker] for worker in workers}
        poll, owners = select.poll(), dict[int, int]()
        for worker in workers:
            owners[self.processes[worker].socket.fileno()] = worker
            poll.register(self.processes[worker].socket, select.POLLIN)
        pause_s = min(CHECK_S, self._timeout_s / 8)
        checked_at = time.perf_counter()
        while waiting:
            heard = [fd for fd, _ in poll.poll(1000 * pause_s)]
            now = time.perf_counter()
            # As in `_find_stuck`: after a suspension, a single check counts for a limited time.
            elapsed, checked_at = min(now - checked_at, self._timeout_s / 4), now
            for fd in heard:
                worker = owners[fd]
                poll.unregister(fd)
                del waiting[worker]
                yield worker, self._read_answer(worker)
            for worker in list(waiting):
                stalled = self.block.progress[worker] == progress[worker]
                progress[worker] = self.block.progress[worker]
                waiting[worker] = waiting[worker] + elapsed if stalled else 0.0
                if waiting[worker] >= self.patience_s(worker):
                    poll.unregister(self.processes[worker].socket)
                    del waiting[worker]
                    yield worker, Fault(worker, stuck=True)

    def patience_s(self, worker: int) -> float:
        """Seconds without progress after which a worker counts as stuck."""
        begun = self.block.progress[worker] > 0
        return self._timeout_s if begun else max(STARTUP_S, self._timeout_s)

    def replace(self, worker: int) -> None:
        """Kill a worker and start another in its place; queued envs count as stepped."""
        self.terminate(worker)
        block = self.block
        block.finished[worker] = block.pushed[worker]
        block.asleep[worker] = 0
        block.progress[worker] = 0
        self._stalled_s[worker] = 0.0
        self.processes[worker] = self._start_worker(worker)

    def terminate(self, worker: int) -> None:
        """Kill a worker and stop polling its socket."""
        process = self.processes[worker]
        if process.socket.fileno() >= 0:
            self._poll.unregister(process.socket)
        process.kill()

    def close(self) -> None:
        """End all workers within five seconds; may be called twice, and in a signal handler."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        try:
            stop_all(self.processes, GRACE_S)
        finally:
            for fd in (self._wake, self._wake_end):
                os.close(fd)
            self.block.close()

    def _start_worker(self, index: int) -> WorkerProcess:
        process = WorkerProcess(index, block=self.block.fd, wake=self._wake_end)
        self._poll.register(process.socket, select.POLLIN)
        # If it is dead already, `answers` reports it.
        with suppress(WorkerLost):
            process.send_start(self._factory, self.plan, self._spin_s)
        return process

    def _wake_sleepers(self) -> None:
        """Wake up sleeping workers that have queued envs."""
        fence()
        block = self.block
        for index, process in enumerate(self.processes):
            if block.asleep[index] and block.pushed[index] != block.finished[index]:
                block.asleep[index] = 0
                # A dead worker is reported when its envs are waited for.
                with suppress(WorkerLost):
                    process.wake()

    def _spin(self, need: int) -> bool:
        """Spin for a moment until enough envs have been stepped; returns whether they have."""
        spin_s = self._backoff.spin_s()
        if not spin_s:
            return False
        finished, clock = self.block.finished, time.perf_counter
        begin = now = clock()
        while sum(finished) < need and now - begin < spin_s:
            os.sched_yield()
            now = clock()
        found = sum(finished) >= need
        self._backoff.judge(now - begin, found=found)
        return found

    def _sleep_until(self, need: int, deadline: float | None) -> Fault | None:
        block = self.block
        heard = False
        while True:
            now = time.perf_counter()
            if heard or now - self._checked_at > min(CHECK_S, self._timeout_s / 8):
                fault = self._check_workers()
                if fault is not None:
                    return fault
            if deadline is not None and now >= deadline:
                return None
            block.target[0] = need
            block.asleep[-1] = 1
            fence()
            if sum(block.finished) < need:
                heard = self._poll_events(now, deadline)
            block.asleep[-1] = 0
            if sum(block.finished) >= need:
                fence()
                return None

    def _poll_events(self, now: float, deadline: float | None) -> bool:
        """Sleep until something happens; returns whether a worker sent a message or died."""
        pause_s = min(CHECK_S, self._timeout_s / 8)
        if deadline is not None:
            pause_s = min(pause_s, deadline - now)
        heard = self._poll.poll(1000 * pause_s)
        for fd, _ in heard:
            if fd == self._wake:
                os.read(fd, 64)
        # Workers send nothing unasked unless they have failed.
        return any(fd != self._wake for fd, _ in heard)

    def _check_workers(self) -> Fault | None:
        """A worker that has failed, died or got stuck, if there is one."""
        now = time.perf_counter()
        elapsed, self._checked_at = now - self._checked_at, now
        heard = {fd for fd, _ in self._poll.poll(0)}
        for index, process in enumerate(self.processes):
            if process.socket.fileno() in heard:
                return self._read_fault(index)
        return self._find_stuck(elapsed)

    def _read_fault(self, worker: int) -> Fault:
        fault = self._read_answer(worker)
        assert isinstance(fault, Fault)
        return fault

    def _read_answer(self, worker: int) -> Any:
        """The message that a worker has begun to send, or a Fault."""
        try:
            answer = self.processes[worker].answer(self._timeout_s)
        except WorkerLost as lost:
            return Fault(worker, stuck=lost.stuck)
        return Fault(worker, answer) if isinstance(answer, protocol.Failure) else answer

    def _find_stuck(self, elapsed: float) -> Fault | None:
        # The trainer and its workers may have been suspended together, so a single check counts for
        # a limited time only.
        elapsed = min(elapsed, self._timeout_s / 4)
        block = self.block
        for index in range(len(self.processes)):
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
