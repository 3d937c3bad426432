"""Updates in another thread, request by request."""

from __future__ import annotations

from functools import partial

import numpy as np

from briskrl.algos.fused.service import kernels
from briskrl.algos.fused.values.engine import HeldTask
from briskrl.algos.fused.values.kernels import ANNOUNCED
from briskrl.core.types import Ints
from briskrl.fused.handover.kernels import PATIENCE, wait_for
from briskrl.fused.team import Sign, Worker


class Service:
    """Has a worker do updates, and keeps it in compiled code from one request to the next.

    Were it to use the interpreter in between, that would travel from core to core and back again,
    with the objects that both threads touch, while nobody computes.

    Args:
        worker: Who does them; is free for other work once the service is closed.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._board = np.zeros(kernels.BOARD_SIZE, np.int64)
        self._tasks: tuple[HeldTask, ...] = ()
        self._requests = self._announcements = 0

    def begin(self, task: HeldTask) -> None:
        """Start the updates of a task; tasks of two batches take turns."""
        if task not in self._tasks:
            self.close()
            self._retract()
            self._tasks = (self._tasks or (task,))[-1], task
            # Compiled here and now, if need be: a thread would be at it while there is a request.
            kernels.serve(*self._tasks, self._board, PATIENCE)
        self._requests += 1
        if not kernels.ask(self._board, self._tasks.index(task)):
            self._worker.finish()
            self._board[kernels.STATE] = kernels.ASKED
            self._worker.begin(partial(_serve, self._tasks, self._board))

    def announce(self, task: HeldTask) -> None:
        """A task, prepared, will be asked for next: have it begun as soon as there is time.

        Should it change meanwhile, ANNOUNCED among the rules of its lesson must be set to 0.
        """
        if task in self._tasks:
            self._announcements += 1
            task.value.lesson.rules[ANNOUNCED] = self._announcements
            kernels.announce(self._board, self._tasks.index(task), self._announcements)

    @property
    def end(self) -> Sign:
        """What says that these updates are done."""
        return self._board, kernels.SERVED, self._requests

    def finish(self) -> tuple[int, int]:
        """Wait until they are done.

        Returns:
            The nanoseconds that this has taken to compute, since `begin` and before.
        """
        wait_for(*self.end)
        return int(self._board[kernels.TOOK_NS]), int(self._board[kernels.AHEAD_NS])

    def close(self) -> None:
        """Have the worker come back; nothing may be under way."""
        kernels.close(self._board)
        self._worker.finish()

    def _retract(self) -> None:
        """Take back what was announced, while nobody serves."""
        for task in self._tasks:
            task.value.lesson.rules[ANNOUNCED] = 0
        self._board[[kernels.NEXT, kernels.AHEAD]] = 0


def _serve(tasks: tuple[HeldTask, ...], board: Ints, _: int) -> None:
    kernels.serve(*tasks, board, PATIENCE)
