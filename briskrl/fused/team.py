"""A few threads that do parts of one compiled piece of work at the same time.

Compiled code releases the interpreter lock, so parts really run side by side. Waking a sleeping
thread can take longer than a piece of work; so whoever waits looks for a while before it sleeps.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from time import perf_counter, thread_time

import numpy as np

from briskrl.core.types import Ints
from briskrl.fused.handover.kernels import PATIENCE, hand_over, report, wait_for

BEGUN, TAKEN, DONE, BOARD_SIZE = 0, 8, 16, 24
"""Places of three counters, a cache line apart."""
TAKING_LOOKS = 100
"""Looks, some twenty microseconds in all, that whoever gives work away may wait for it to be
taken."""

SHORTEST_RETREAT, LONGEST_RETREAT, RETREAT_GROWTH, RETREAT_SHRINKING = 2, 4096, 4, 1 / 16
"""In pieces of work; how much longer each is than the one before, and which part of that is taken
back by a piece that was done together."""
REMEMBERED = 31 / 32
"""How much the balance of pieces done together counts one piece later.

So about thirty of them count. What they save makes up for a core that is lost now and then, as on
an idle machine, but not for cores that others keep busy.
"""

Part = Callable[[int], None]
Sign = tuple[Ints, int, int]
"""(numbers, at, number): given as soon as numbers[at] has reached the last."""


class Team:
    """Runs a function once per member, each with the member's number.

    Args:
        size: Members, the calling thread included.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._members = [Worker(number) for number in range(1, size)]
        self._retreat = Retreat()
        weakref.finalize(self, _dismiss, self._members)

    def run(self, part: Part, size: int) -> None:
        """Call part(0), part(1), ... part(size - 1) at the same time; returns when all are done.

        If others keep the cores busy, the calling thread makes the calls one after the other for a
        while: it would only wait for members that have lost their core.

        Raises:
            BaseException: What the first part to fail has raised.
        """
        if self._retreat.goes_on():
            for number in range(size):
                part(number)
            return
        members = self._members[: size - 1]
        for member in members:
            member.begin(part)
        begin, own_begin = perf_counter(), thread_time()
        try:
            part(0)
        finally:
            own_s = thread_time() - own_begin
            errors = [member.finish() for member in members]
        self._retreat.judge(perf_counter() - begin, size * own_s)
        for error in errors:
            if error is not None:
                raise error


class Retreat:
    """How long to do without other threads, while they cost more time than they save.

    A thread that has lost its core to another process is waited for. A retreat is the longer the
    more often there was a reason for one.
    """

    def __init__(self) -> None:
        self._left = 0
        self._next: float = SHORTEST_RETREAT
        self._balance = 0.0

    def goes_on(self) -> bool:
        """Whether the next piece of work is to be done alone."""
        self._left = max(0, self._left - 1)
        return self._left > 0

    def judge(self, took_s: float, work_s: float) -> None:
        """Tell how a piece of work went that was not done alone.

        Args:
            took_s: Seconds from its beginning to its end.
            work_s: Seconds that the threads have computed in it, about what one would take alone.
        """
        self._balance = REMEMBERED * self._balance + took_s - work_s
        if self._balance > 0:
            self._left = int(self._next)
            self._next = min(RETREAT_GROWTH * self._next, LONGEST_RETREAT)
            self._balance = 0.0
        else:
            self._next = max(SHORTEST_RETREAT, (1 - RETREAT_SHRINKING) * self._next)


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


def _dismiss(members: list[Worker]) -> None:
    for member in members:
        member.leave()


def share(count: int, size: int, number: int, whole: int) -> tuple[int, int]:
    """Where a member's part of `count` rows begins and ends, in units of `whole` rows."""
    units = -(-count // whole)
    begin, end = units * number // size, units * (number + 1) // size
    return min(count, begin * whole), min(count, end * whole)
