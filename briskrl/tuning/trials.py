"""Measure the speed of configs in short slices of real training, without run folders.

Every config has its own trainer, which stays open between slices while memory permits. A slice ends
with an update, so that it contains collection and learning in their true proportion. Trainers skip
the start of a run: they learn immediately and explore as in most of the run.
"""

from __future__ import annotations

from collections import OrderedDict
from time import perf_counter, process_time

import psutil
import torch
from numba.core import event

from briskrl.bench.steady_config import steady_config
from briskrl.core.errors import BriskError
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up
from briskrl.tuning.config import Objective
from briskrl.tuning.space import Point, Space

FEWEST_OPEN, MOST_OPEN = 2, 10
"""Trainers open at a time; each has a replay buffer, some have worker processes."""
MEMORY_SHARE = 0.25
"""Memory of the open trainers over the available memory, at most."""
LONG = 2
"""A slow slice is cut off after this many times its planned duration."""
WARM_UP_S = 0.05
"""Seconds of training after the first update that are not measured."""


class TrialError(BriskError):
    """A config cannot be trained; the message gives the reason."""


class Trials:
    """Measures slices of training for the points of a space.

    Args:
        space: The search space.
        objective: Steps per second (wall) or per CPU second (cpu).
        seconds: Shortest duration of a slice.
        patience_s: Longest wait for an update.
    """

    def __init__(
        self, space: Space, objective: Objective, seconds: float, patience_s: float = 60.0
    ) -> None:
        self._space = space
        self._clock = perf_counter if objective == "wall" else cpu_seconds
        self._seconds = seconds
        self._patience_s = patience_s
        self.compiling_s = 0.0
        """Seconds of compilation, which happens once per machine."""
        self._open: OrderedDict[Point, Trainer] = OrderedDict()
        self._threads_before = torch.get_num_threads()

    def rate(self, point: Point, floor: float = 0.0) -> float:
        """Measure one slice in steps per second.

        Args:
            point: The settings to train with.
            floor: Rate below which the exact value does not matter. A slice that stays below it is
                cut off, even within a rollout, and its trainer is closed.

        Raises:
            TrialError: The trainer cannot be built, or fails.
        """
        try:
            if point not in self._open:
                rate = self._slice(self._begin(point), WARM_UP_S, floor)
                if rate < floor:
                    self._discard(point)
                    return rate
            self._open.move_to_end(point)
            rate = self._slice(self._open[point], self._seconds, floor)
            if rate < floor:
                self._discard(point)
            return rate
        except Exception as error:
            self._discard(point)
            kind = "" if isinstance(error, BriskError) else f"{type(error).__name__}: "
            raise TrialError(f"{kind}{error}") from error

    def close(self) -> None:
        """Release everything; may be called twice."""
        for point in list(self._open):
            self._discard(point)
        torch.set_num_threads(self._threads_before)

    def _begin(self, point: Point) -> Trainer:
        """Build and warm up a trainer; closes the least recently used one if necessary."""
        while len(self._open) >= MOST_OPEN:
            self._discard(next(iter(self._open)))
        with event.install_timer("numba:compile", self._add_compile_time):
            trainer = Trainer(steady_config(self._space.apply(point)))
            self._open[point] = trainer
            if trainer.config.engine == "torch":
                # Torch compiles nothing, and with more threads than free cores a warm-up can take
                # very long; slices detect that.
                trainer.start()
            else:
                warm_up(trainer)
        while len(self._open) > FEWEST_OPEN and self._memory_use() > MEMORY_SHARE:
            self._discard(next(iter(self._open)))
        return trainer

    def _memory_use(self) -> float:
        """Memory of all open trainers over the available memory."""
        held = sum(trainer.memory.nbytes for trainer in self._open.values())
        return float(held / max(1, psutil.virtual_memory().available))

    def _slice(self, trainer: Trainer, seconds: float, floor: float) -> float:
        """Train for `seconds` and up to the next update; returns the rate."""
        torch.set_num_threads(trainer.config.num_threads)
        counters, steps = trainer.counters, trainer.counters.env_steps
        before, begin = self._clock(), perf_counter()
        spent = 0.0
        while spent < seconds:
            updates = counters.updates
            while counters.updates == updates:
                trainer.iterate()
                spent = perf_counter() - begin
                if spent > LONG * self._seconds and counters.env_steps - steps < floor * spent:
                    return (counters.env_steps - steps) / spent
                if spent > seconds + self._patience_s:
                    raise TrialError(f"There was no update within {self._patience_s:.0f} s.")
        return (counters.env_steps - steps) / max(self._clock() - before, 1e-9)

    def _add_compile_time(self, seconds: float) -> None:
        self.compiling_s += seconds

    def _discard(self, point: Point) -> None:
        trainer = self._open.pop(point, None)
        if trainer is not None:
            trainer.close()


def cpu_seconds() -> float:
    """CPU time of this process and its running child processes."""
    children = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        children += times.user + times.system
    return process_time() + children
