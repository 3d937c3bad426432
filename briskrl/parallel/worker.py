"""A thread that does one piece of work after another.

Waking a sleeping thread can take longer than a piece of work; so whoever waits looks for a while
before it sleeps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from briskrl.core.types import Ints
from briskrl.parallel.kernels.spin_wait import PATIENCE, hand_over, report, wait_for

BEGUN, TAKEN, DONE, BOARD_SIZE = 0, 8, 16, 24
"""Places of three counters, a cache line apart."""
TAKING_LOOKS = 100
"""Looks, some twenty microseconds in all, that whoever gives work away may wait for it to be
taken."""

Part = Callable[[int], None]
Sign = tuple[Ints, int, int]
"""(numbers, at, number): given as soon as numbers[at] has reached the last."""


class Worker:
    """One thread, which after some looks for more sleeps between two pieces of work.

    Args:
        number: What it calls them with.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._part: Part | None = None
        self._error: BaseException | None = None
        self._board = np.zeros(BOARD_SIZE, np.int64)
        self._asleep = False
        self._go = threading.Lock()
        self._go.acquire()
        # Compiled here and now: a thread would be at it while there is work for it.
        report(self._board, DONE, 0, BEGUN, 0)
        hand_over(self._board, BEGUN, 0, TAKEN, 0)
        wait_for(self._board, DONE, 0)
        name = f"brisk-worker-{number}"
        self._thread = threading.Thread(target=self._work, daemon=True, name=name)
        self._thread.start()

    def begin(self, part: Part | None) -> None:
        """Start a piece of work; None ends the thread. `finish` must be called in between.

        The thread may have the interpreter before the caller goes on: if it found that taken it
        would fall asleep, and take longer to wake than to begin.
        """
        self._part = part
        number = self._board[BEGUN] + 1
        hand_over(self._board, BEGUN, number, TAKEN, TAKING_LOOKS)
        # A worker that was about to sleep and saw the work in time leaves the lock open.
        if self._asleep and self._go.locked():
            self._asleep = False
            self._go.release()

    def finish(self) -> BaseException | None:
        """Wait until the work is done; returns what it raised."""
        wait_for(*self.end)
        error, self._error = self._error, None
        return error

    @property
    def end(self) -> Sign:
        """What says that the work is done."""
        return self._board, DONE, int(self._board[BEGUN])

    def leave(self) -> None:
        """End the thread."""
        self.begin(None)
        self._thread.join(timeout=1.0)

    def _work(self) -> None:
        number = 0
        while True:
            while not report(self._board, DONE, number, BEGUN, PATIENCE):
                self._asleep = True
                # Whoever begins between these lines finds this thread asleep and wakes it.
                if self._board[BEGUN] > number:
                    continue
                self._go.acquire()
            number += 1
            part = self._part
            if part is None:
                return
            self._board[TAKEN] = number
            try:
                part(self._number)
            except BaseException as error:
                self._error = error
            # The function may hold whoever owns this worker; nobody would ever let go of it.
            self._part = part = None
