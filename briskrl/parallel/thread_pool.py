"""Threads that sleep while there is nothing to do.

Waking a sleeping thread can take longer than a piece of work, so threads look for more work for a
while before they sleep.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import numpy as np

from briskrl.core.types import Ints
from briskrl.parallel.kernels.spin_wait import PATIENCE, hand_over, report, wait_for

BEGUN, TAKEN, DONE, MAILBOX_SIZE = 0, 8, 16, 24
"""Indices of three counters, a cache line apart."""
TAKING_LOOKS = 100
"""Looks, some twenty microseconds in all, that `Worker.begin` waits for the task to be taken."""

Task = Callable[[int], None]
"""Called with the number of the thread."""
Signal = tuple[Ints, int, int]
"""(mailbox, index, number): given as soon as mailbox[index] has reached the number."""


class _SleepingThread:
    """A daemon thread that calls a function again and again, and sleeps after each call.

    Args:
        work: Returns after looking for something to do for a while without success. It must not
            refer to the owner of the thread, which could then never be collected.
        name: Of the thread.
        has_work: Whether there is something to do that nobody will wake the thread for again.
    """

    def __init__(
        self, work: Callable[[], None], name: str, has_work: Callable[[], bool] = lambda: False
    ) -> None:
        self._work = work
        self._has_work = has_work
        self._stopped = False
        self.asleep = False
        self._go = threading.Lock()
        self._go.acquire()
        self.thread = threading.Thread(target=self._run, daemon=True, name=name)
        self.thread.start()

    def wake(self) -> None:
        """Wake the thread if it is asleep."""
        # A thread that was about to sleep and saw its work in time leaves the lock open.
        if self.asleep and self._go.locked():
            self.asleep = False
            self._go.release()

    def stop(self) -> None:
        """End the thread after the call of `work` that it is in."""
        self._stopped = True
        self.wake()
        self.thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._stopped:
            self._work()
            self.asleep = True
            # A thread that calls `wake` or `stop` between these lines finds this one asleep.
            if not (self._stopped or self._has_work()):
                self._go.acquire()


class ThreadPool:
    """Threads that take part in compiled work of another thread while they are awake.

    Nobody waits for them: work is shared through a queue or a mailbox that `work` looks at.

    Args:
        size: Number of threads.
        work: Called with the number of a thread, from 1. Returns after looking for something to do
            for a while without success. It must not refer to the owner of the pool.
        leave: Makes `work` return soon.
        name: Prefix of the names of threads.
    """

    def __init__(
        self,
        size: int,
        work: Task,
        leave: Callable[[], None] | None = None,
        name: str = "brisk-helper",
    ) -> None:
        self._leave = leave
        self._threads = [
            _SleepingThread(partial(work, number), f"{name}-{number}")
            for number in range(1, size + 1)
        ]

    def wake(self) -> None:
        """Wake threads that are asleep; costs next to nothing if none is."""
        for thread in self._threads:
            if thread.asleep:
                thread.wake()

    def stop(self) -> None:
        """End the threads; may be called twice."""
        if self._leave is not None:
            self._leave()
        for thread in self._threads:
            thread.stop()


class Worker:
    """A thread that runs one task after another and reports when each is done.

    Args:
        number: What tasks are called with.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._task: Task | None = None
        self._error: BaseException | None = None
        self._taken = 0
        self._mailbox = np.zeros(MAILBOX_SIZE, np.int64)
        # Compiled by this thread: the worker would compile while there is a task for it.
        report(self._mailbox, DONE, 0, BEGUN, 0)
        hand_over(self._mailbox, BEGUN, 0, TAKEN, 0)
        wait_for(self._mailbox, DONE, 0)
        self._thread = _SleepingThread(self._work, f"brisk-worker-{number}", self._has_task)

    def begin(self, task: Task) -> None:
        """Start a task; `finish` must be called before the next one.

        The thread may have the interpreter before the caller goes on: if it found that taken it
        would fall asleep, and take longer to wake than to begin.
        """
        self._task = task
        hand_over(self._mailbox, BEGUN, self._mailbox[BEGUN] + 1, TAKEN, TAKING_LOOKS)
        self._thread.wake()

    def finish(self) -> BaseException | None:
        """Wait until the task is done; returns what it raised."""
        wait_for(*self.end)
        error, self._error = self._error, None
        return error

    @property
    def end(self) -> Signal:
        """The signal that the task is done."""
        return self._mailbox, DONE, int(self._mailbox[BEGUN])

    @property
    def is_alive(self) -> bool:
        """Whether the thread has not ended."""
        return self._thread.thread.is_alive()

    def stop(self) -> None:
        """End the thread; no task may be under way."""
        self._thread.stop()

    def _has_task(self) -> bool:
        return bool(self._mailbox[BEGUN] > self._taken)

    def _work(self) -> None:
        while report(self._mailbox, DONE, self._taken, BEGUN, PATIENCE):
            self._taken += 1
            self._mailbox[TAKEN] = self._taken
            task = self._task
            assert task is not None
            try:
                task(self._number)
            except BaseException as error:
                self._error = error
            # The task may refer to the owner of this worker, which could never be collected.
            self._task = task = None
