"""Compiled work in another thread, request by request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from briskrl.compiler.jit import function_address
from briskrl.compiler.packed_args import PackedArgs
from briskrl.core.types import Ints
from briskrl.parallel.kernels import native_worker as kernels
from briskrl.parallel.kernels.spin_wait import PATIENCE, wait_for
from briskrl.parallel.worker import Sign, Worker

Subject = PackedArgs[Any]
Work = Callable[[Subject, int], None]
"""A kernel that is called with a subject and a number."""

KEPT = 8
"""Subjects that may not be given up yet: more than the other thread can be at."""


class NativeWorker:
    """Has a worker do compiled work, and keeps it in compiled code from one request to the next.

    Were it to use the interpreter in between, that would travel from core to core and back again,
    with the objects that both threads touch, while nobody computes.

    Args:
        worker: Who does it; is free for other work once the service is closed.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._board = np.zeros(kernels.BOARD_SIZE, np.int64)
        self._entries: dict[tuple[Work, Subject], int] = {}
        self._requests = self._announcements = 0
        self._open = False
        # Compiled here and now: a thread would be at it while there is a request.
        kernels.worker_loop(self._board, PATIENCE)

    def begin(self, work: Work, subject: Subject, number: int = 0) -> None:
        """Start the work on a subject; `finish` or `cancel_or_wait` must be called in between."""
        self._requests += 1
        self._open = True
        if not kernels.submit(self._board, *self._addresses(work, subject), number):
            self._worker.finish()
            self._board[kernels.STATE] = kernels.ASKED
            self._worker.begin(partial(_serve, self._board, self._entries))

    def prefetch(self, work: Work, subject: Subject) -> int:
        """The work on a subject will be asked for next: have it begun as soon as there is time.

        Returns:
            The number of the announcement, with which the work is called to begin.
        """
        self._announcements += 1
        kernels.prefetch(self._board, *self._addresses(work, subject), self._announcements)
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

    def cancel_or_wait(self) -> int:
        """The work is no longer needed: wait for it only if somebody is at it.

        Returns:
            The nanoseconds that it has taken to compute.
        """
        if kernels.cancel(self._board):
            self._requests -= 1
            return 0
        return self.finish()[0]

    def close(self) -> None:
        """Have the worker come back; nothing may be under way."""
        if self._open:
            self._open = False
            kernels.close(self._board)
            self._worker.finish()

    def _addresses(self, work: Work, subject: Subject) -> tuple[int, int]:
        """Where compiled code finds the work and its subject."""
        found = self._entries.get((work, subject))
        if found is None:
            if len(self._entries) == KEPT:
                self._entries.pop(next(iter(self._entries)))
            found = self._entries[work, subject] = function_address(work, subject, 0)
        return found, subject.address


def _serve(board: Ints, _entries: dict[tuple[Work, Subject], int], _: int) -> None:
    """Work at requests; what they are about stays alive meanwhile."""
    kernels.worker_loop(board, PATIENCE)
