"""A few threads that do parts of one compiled piece of work at the same time.

Compiled code releases the interpreter lock, so parts really run side by side. Waking a sleeping
thread can take longer than a piece of work; so whoever waits looks for a while before it sleeps.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from time import perf_counter

import numpy as np

from briskrl.core.types import Ints
from briskrl.fused.handover.kernels import PATIENCE, hand_over, report, wait_for

BEGUN, TAKEN, DONE, BOARD_SIZE = 0, 8, 16, 24
"""Places of three counters, a cache line apart."""
TAKING_LOOKS = 100
"""Looks, some twenty microseconds in all, that whoever gives work away may wait for it to be
taken."""

MOST_WAIT, SLACK_S = 0.5, 2e-4
"""Waiting, as a share of one's own part and in seconds, that says nothing about the cores."""
SHORTEST_RETREAT, LONGEST_RETREAT, RETREAT_GROWTH = 2, 4096, 4
"""In pieces of work; and how much longer each is than the one before.

A core that is lost now and then, as on an idle machine, should cost little, and a machine that is
busy should be left alone soon: trying costs about ten pieces.
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
        begin = perf_counter()
        try:
            part(0)
        finally:
            own_s = perf_counter() - begin
            errors = [member.finish() for member in members]
        waited_s = perf_counter() - begin - own_s
        self._retreat.judge(lost=waited_s > MOST_WAIT * own_s + SLACK_S)
        for error in errors:
            if error is not None:
                raise error


class Retreat:
    """How long to do without other threads, once one has lost its core to another process.

    Waiting for such a thread costs more than it brings. A retreat is the longer the more often
    there was a reason for one.
    """

    def __init__(self) -> None:
        self._left = 0
        self._next = SHORTEST_RETREAT

    def goes_on(self) -> bool:
        """Whether the next piece of work is to be done alone."""
        self._left = max(0, self._left - 1)
        return self._left > 0

    def judge(self, *, lost: bool) -> None:
        """Tell how a piece of work went that was not done alone."""
        if lost:
            self._left = self._next
            self._next = min(RETREAT_GROWTH * self._next, LONGEST_RETREAT)
        else:
            self._next = max(SHORTEST_RETREAT, self._next - 1)


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
