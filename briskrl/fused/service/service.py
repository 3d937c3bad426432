"""Compiled work in another thread, request by request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from briskrl.core.types import Ints
from briskrl.fused.handover.kernels import PATIENCE, wait_for
from briskrl.fused.service import kernels
from briskrl.fused.team import Sign, Worker
from briskrl.held import Held
from briskrl.jit import entry

Subject = Held[Any]
Work = Callable[[Subject, int], None]
"""A kernel: work(subject, 0) does it; with the number of an announcement it only begins with it."""

KEPT = 4
"""Subjects that may not be given up yet: more than the other thread can be at."""


class Service:
    """Has a worker do compiled work, and keeps it in compiled code from one request to the next.

    Were it to use the interpreter in between, that would travel from core to core and back again,
    with the objects that both threads touch, while nobody computes.

    Args:
        worker: Who does it; is free for other work once the service is closed.
        work: What is done.
    """

    def __init__(self, worker: Worker, work: Work) -> None:
        self._worker = worker
        self._work = work
        self._board = np.zeros(kernels.BOARD_SIZE, np.int64)
        self._entries: dict[Subject, int] = {}
        self._requests = self._announcements = 0
        self._open = False
        # Compiled here and now: a thread would be at it while there is a request.
        kernels.serve(self._board, PATIENCE)

    def begin(self, subject: Subject) -> None:
        """Start the work on a subject."""
        self._requests += 1
        self._open = True
        if not kernels.ask(self._board, *self._addresses(subject)):
            self._worker.finish()
            self._board[kernels.STATE] = kernels.ASKED
            self._worker.begin(partial(_serve, self._board, self._entries))

    def announce(self, subject: Subject) -> int:
        """The work on a subject will be asked for next: have it begun as soon as there is time.

        Returns:
            The number of the announcement, by which the work is to tell whether it has begun.
        """
        self._announcements += 1
        kernels.announce(self._board, *self._addresses(subject), self._announcements)
        return self._announcements

    @property
    def end(self) -> Sign:
        """What says that the work is done."""
        return self._board, kernels.SERVED, self._requests

    def finish(self) -> tuple[int, int]:
        """Wait until it is done.

        Returns:
            The nanoseconds that it has taken to compute, since `begin` and before.
        """
        wait_for(*self.end)
        return int(self._board[kernels.TOOK_NS]), int(self._board[kernels.AHEAD_NS])

    def close(self) -> None:
        """Have the worker come back; nothing may be under way."""
        if self._open:
            self._open = False
            kernels.close(self._board)
            self._worker.finish()

    def _addresses(self, subject: Subject) -> tuple[int, int]:
        """Where compiled code finds the work and its subject."""
        if subject not in self._entries:
            if len(self._entries) == KEPT:
                self._entries.pop(next(iter(self._entries)))
            self._entries[subject] = entry(self._work, subject, 0)
        return self._entries[subject], subject.address


def _serve(board: Ints, _entries: dict[Subject, int], _: int) -> None:
    """Work at requests; what they are about stays alive meanwhile."""
    kernels.serve(board, PATIENCE)
