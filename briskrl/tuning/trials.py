"""Slices of real training, without run folders: steps per second of a config, a moment at a time.

Every config has a session of its own, which stays open between slices, as far as there is room. A
slice ends with an update, so that it holds collecting and learning in their true proportion, and
sessions are past the beginning: they learn from the first moments on, and explore as they would for
most of the run.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from time import perf_counter, process_time
from typing import Any

import psutil
import torch
from numba.core import event

from briskrl.algos.dqn.config import DQNConfig
from briskrl.core.errors import BriskError
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up
from briskrl.tuning.config import Objective
from briskrl.tuning.space import Point, Space

FEWEST_OPEN, MOST_OPEN = 2, 10
"""Sessions open at a time; each holds a replay memory, some hold processes."""
MEMORY_SHARE = 0.25
"""How much open sessions may hold, as a share of the memory that is left."""
LONG = 2
"""Planned durations after which a slow slice is cut off."""
SETTLE_S = 0.05
"""Training after the first update that does not count."""
ENDLESS = 10**12
"""Steps of a run that never nears its end: schedules stay where they begin."""


class TrialError(BriskError):
    """A config that cannot train here; the message says why."""


class Trials:
    """Slices of the points of a space.

    Args:
        space: What may be tried.
        objective: Whether a slice counts steps per second or per CPU second.
        seconds: How long a slice is, at least.
        patience_s: How long to wait for an update.
    """

    def __init__(
        self, space: Space, objective: Objective, seconds: float, patience_s: float = 60.0
    ) -> None:
        self._space = space
        self._counters = perf_counter if objective == "wall" else cpu_seconds
        self._seconds = seconds
        self._patience_s = patience_s
        self.compiling_s = 0.0
        """Seconds spent on compiling, which happens once per machine."""
        self._open: OrderedDict[Point, Trainer] = OrderedDict()
        self._threads_before = torch.get_num_threads()

    def rate(self, point: Point, floor: float = 0.0) -> float:
        """Steps per second of one slice.

        Args:
            point: What to train.
            floor: Steps per second below which the exact rate does not matter. A slice that stays
                below it is cut off, be it within a rollout, and its session is closed.

        Raises:
            TrialError: Its session cannot be built, or fails.
        """
        try:
            if point not in self._open:
                rate = self._slice(self._begin(point), SETTLE_S, floor)
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
        """A new session, warmed up; the one unused for longest makes room for it."""
        while len(self._open) >= MOST_OPEN:
            self._discard(next(iter(self._open)))
        with event.install_timer("numba:compile", self._excuse):
            trainer = Trainer(for_trial(self._space.apply(point)))
            self._open[point] = trainer
            if trainer.config.engine == "torch":
                # Torch compiles nothing. With more threads than free cores it can be slower by far
                # than a rehearsal is worth, which slices notice.
                trainer.start()
            else:
                warm_up(trainer)
        while len(self._open) > FEWEST_OPEN and self._crowd() > MEMORY_SHARE:
            self._discard(next(iter(self._open)))
        return trainer

    def _crowd(self) -> float:
        """What all open sessions remember, over the memory that is left."""
        held = sum(getattr(trainer.memory, "nbytes", 0) for trainer in self._open.values())
        return float(held / max(1, psutil.virtual_memory().available))

    def _slice(self, trainer: Trainer, seconds: float, floor: float) -> float:
        """Train for so long and until the next update, which is where slices begin, too."""
        torch.set_num_threads(trainer.config.num_threads)
        counters, steps = trainer.counters, trainer.counters.env_steps
        before, begin = self._counters(), perf_counter()
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
        return (counters.env_steps - steps) / max(self._counters() - before, 1e-9)

    def _excuse(self, seconds: float) -> None:
        self.compiling_s += seconds

    def _discard(self, point: Point) -> None:
        trainer = self._open.pop(point, None)
        if trainer is not None:
            trainer.close()


def for_trial(config: TrainConfig) -> TrainConfig:
    """The config as it trains for most of its run, from the first moment on."""
    algo: Any = config.algo_config
    if isinstance(algo, DQNConfig):
        algo = replace(algo, learning_starts=0, epsilon_start=algo.epsilon_end)
    return complete(
        replace(
            config,
            steps=ENDLESS,
            episodes=None,
            max_episodes=None,
            run_dir=None,
            warmup=True,
            algo_config=algo,
        )
    )


def cpu_seconds() -> float:
    """CPU time of this process and of those that it has started and that still run."""
    children = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        children += times.user + times.system
    return process_time() + children
