"""A few threads that run the same compiled call on different rows, without making any object."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Crew:
    """Runs job(lane) for every lane at once: lane 0 in the caller, the others in own threads.

    Handing over costs two locks per lane, some ten microseconds; jobs must release the interpreter
    lock to gain anything.
    """

    def __init__(self, num_lanes: int) -> None:
        self._job: Callable[[int], None] | None = None
        self._errors: list[BaseException] = []
        self._go = [_taken_lock() for _ in range(1, num_lanes)]
        self._done = [_taken_lock() for _ in range(1, num_lanes)]
        self._threads = [
            threading.Thread(
                target=self._work, args=(lane,), daemon=True, name=f"brisk-lane-{lane}"
            )
            for lane in range(1, num_lanes)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, job: Callable[[int], None]) -> None:
        """Run the job on all lanes and wait for them; the first error of a lane is raised."""
        self._job = job
        for lock in self._go:
            lock.release()
        try:
            job(0)
        finally:
            for lock in self._done:
                lock.acquire()
            # An idle crew must not keep alive whatever the job is bound to.
            self._job = None
        if self._errors:
            raise self._errors.pop()

    def stop(self) -> None:
        """End the threads; may be called twice."""
        for lock in self._go:
            if lock.locked():
                lock.release()
        for thread in self._threads:
            thread.join(timeout=1.0)

    def _work(self, lane: int) -> None:
        go, done = self._go[lane - 1], self._done[lane - 1]
        while True:
            go.acquire()
            job = self._job
            if job is None:
                return
            try:
                job(lane)
            except BaseException as error:
                self._errors.append(error)
            del job
            done.release()


def _taken_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock
