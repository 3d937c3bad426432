"""Loops with known costs, to compare and observe."""

from __future__ import annotations

import time
from collections.abc import Callable

from briskrl.core.phase import PhaseTimer


class SleepingLoop:
    """Sleeps for `seconds(iteration)`, and updates every `every` iterations."""

    def __init__(self, seconds: Callable[[int], float], every: int = 1) -> None:
        self.timer = PhaseTimer()
        self.steps = self.updates = 0
        self.episodes: int | None = None
        self.entered = self.left = 0
        self.closed = False
        self._seconds = seconds
        self._every = every
        self._iterations = 0

    def enter(self) -> None:
        self.entered += 1

    def leave(self) -> None:
        self.left += 1

    def iterate(self) -> None:
        with self.timer["env"]:
            time.sleep(self._seconds(self._iterations))
        self._iterations += 1
        self.steps += 10
        if self._iterations % self._every == 0:
            with self.timer["update"]:
                self.updates += 1

    def close(self) -> None:
        self.closed = True


class GrowingLoop(SleepingLoop):
    """Computes a millisecond in every update, and logs for longer each time."""

    def __init__(self) -> None:
        super().__init__(lambda i: 0.0)

    def iterate(self) -> None:
        self._iterations += 1
        self.steps += 10
        self.updates += 1
        with self.timer["update"]:
            _compute(1e-3)
        with self.timer["log"]:
            _compute(2e-6 * self._iterations)


def _compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
