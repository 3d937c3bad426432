"""Updates in another thread, request by request."""

from __future__ import annotations

from functools import partial

import numpy as np

from briskrl.algos.fused.service import kernels
from briskrl.algos.fused.values.engine import HeldTask
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
        self._requests = 0

    def begin(self, task: HeldTask) -> None:
        """Start the updates of a task; tasks of two batches take turns."""
        if task not in self._tasks:
            self.close()
            self._tasks = (self._tasks or (task,))[-1], task
            # Compiled here and now, if need be: a thread would be at it while there is a request.
            kernels.serve(*self._tasks, self._board, PATIENCE)
        self._requests += 1
        if not kernels.ask(self._board, self._tasks.index(task)):
            self._worker.finish()
            self._board[kernels.STATE] = kernels.ASKED
            self._worker.begin(partial(_serve, self._tasks, self._board))

    @property
    def end(self) -> Sign:
        """What says that these updates are done."""
        return self._board, kernels.SERVED, self._requests

    def finish(self) -> int:
        """Wait until they are done; returns the nanoseconds that this has taken to compute."""
        wait_for(*self.end)
        return int(self._board[kernels.TOOK_NS])

    def close(self) -> None:
        """Have the worker come back; nothing may be under way."""
        kernels.close(self._board)
        self._worker.finish()


def _serve(tasks: tuple[HeldTask, ...], board: Ints, _: int) -> None:
    kernels.serve(*tasks, board, PATIENCE)
