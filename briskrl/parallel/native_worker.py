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
from briskrl.parallel.thread_pool import Signal, Worker

Args = PackedArgs[Any]
Work = Callable[[Args, int], None]
"""A kernel that is called with packed arguments and a number."""

KEPT = 8
"""Requests whose kernels and arguments are kept alive: more than the worker can be at."""


class NativeWorker:
    """Runs compiled work in a worker that stays in compiled code from one request to the next.

    If the worker used the interpreter in between, the interpreter lock would travel from core to
    core and back, with the objects that both threads touch, while nobody computes.

    Args:
        worker: The thread; it can run other tasks after `close`.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._mailbox = np.zeros(kernels.MAILBOX_SIZE, np.int64)
        self._addresses: dict[tuple[Work, Args], int] = {}
        self._requests = 0
        self._open = False
        # Compiled by this thread: the worker would compile while there is a request.
        kernels.worker_loop(self._mailbox, PATIENCE)

    def begin(self, work: Work, args: Args, number: int = 0) -> None:
        """Request work(args, number); `finish` or `cancel_or_wait` must be called in between."""
        self._requests += 1
        self._open = True
        if not kernels.submit(self._mailbox, *self._addresses_of(work, args), number):
            self._worker.finish()
            self._mailbox[kernels.STATE] = kernels.REQUESTED
            self._worker.begin(partial(_serve, self._mailbox, self._addresses))

    @property
    def end(self) -> Signal:
        """The signal that the request is done."""
        return self._mailbox, kernels.SERVED, self._requests

    def finish(self) -> int:
        """Wait until the request is done; returns its CPU time in nanoseconds."""
        wait_for(*self.end)
        return int(self._mailbox[kernels.TOOK_NS])

    def cancel_or_wait(self) -> int:
        """Cancel the request, or wait for it if it has begun.

        Returns:
            Its CPU time in nanoseconds.
        """
        if kernels.cancel(self._mailbox):
            self._requests -= 1
            return 0
        return self.finish()

    def close(self) -> None:
        """Free the worker for other tasks; no request may be under way."""
        if self._open:
            self._open = False
            kernels.close(self._mailbox)
            self._worker.finish()

    def _addresses_of(self, work: Work, args: Args) -> tuple[int, int]:
        """The addresses of a kernel and of its arguments."""
        found = self._addresses.get((work, args))
        if found is None:
            if len(self._addresses) == KEPT:
                self._addresses.pop(next(iter(self._addresses)))
            found = self._addresses[work, args] = function_address(work, args, 0)
        return found, args.address


def _serve(mailbox: Ints, _addresses: dict[tuple[Work, Args], int], _: int) -> None:
    """Run requests; the second argument keeps what they are about alive."""
    kernels.worker_loop(mailbox, PATIENCE)
