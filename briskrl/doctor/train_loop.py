"""Our own training as a loop to be examined: any config, on the side, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from briskrl.bench.train_loop import BenchTrainLoop
from briskrl.core.counters import Counters
from briskrl.core.phase import PhaseTimer
from briskrl.core.types import Batch, Decision, EpisodeStats, Minibatch, StepBuffers
from briskrl.doctor.changes import changed
from briskrl.training.config import TrainConfig
from briskrl.training.hooks import ReportHook
from briskrl.training.learner import Learner
from briskrl.training.warmup import warm_up

EARLY_START = 4
"""Batches collected before learning starts on the side: what comes before it is not examined."""


class TrainLoop:
    """What `brisk train` would do, from the end of its warm-up.

    Args:
        config: What to train, complete. Its run folder is not used.
        alter: Changes of the parts once they are built.
    """

    def __init__(
        self, config: TrainConfig, alter: Sequence[Callable[[TrainLoop], None]] = ()
    ) -> None:
        self._folder = TemporaryDirectory(prefix="brisk-doctor-")
        try:
            self.ours = BenchTrainLoop(
                _on_the_side(config), Path(self._folder.name) / "run", saves=True
            )
        except BaseException:
            self._folder.cleanup()
            raise
        try:
            for change in alter:
                change(self)
            if config.warmup:
                warm_up(self.ours.trainer)
            else:
                self.ours.trainer.start()
            self.ours.run.begin(0.0)
        except BaseException:
            self.close()
            raise

    @property
    def timer(self) -> PhaseTimer:
        """Where the phases are counted."""
        return self.ours.trainer.timer

    @property
    def steps(self) -> int:
        """Transitions so far."""
        return self.ours.trainer.counters.env_steps

    @property
    def updates(self) -> int:
        """Updates so far."""
        return self.ours.trainer.counters.updates

    @property
    def episodes(self) -> int | None:
        """Episodes so far."""
        return self.ours.trainer.counters.episodes

    def enter(self) -> None:
        """Give torch the threads of this run; they belong to the process, not to the session."""
        torch.set_num_threads(self.ours.trainer.config.num_threads)
        torch.set_flush_denormal(True)

    def leave(self) -> None:
        """Nothing to put back: whoever comes next sets its own."""

    def iterate(self) -> None:
        """One iteration with everything that comes between two."""
        self.ours.iterate()

    def close(self) -> None:
        """Release everything and remove the folder."""
        try:
            self.ours.close()
        finally:
            with suppress(OSError):
                self._folder.cleanup()


def _on_the_side(config: TrainConfig) -> TrainConfig:
    """The config without an end, and without a long wait before it learns."""
    config = replace(config, run_dir=None, steps=10**12, episodes=None, max_episodes=None)
    algo = config.algo_config
    if hasattr(algo, "learning_starts"):
        # Whatever decays with the steps still does, so only the wait is cut short.
        early = min(algo.learning_starts, EARLY_START * algo.batch_size)
        config = changed(config, {"algo_config.learning_starts": early})
    return config


class IdleLearner:
    """Learns nothing, in no time; everything else goes on as if it had."""

    def __init__(
        self, learner: Learner, counters: Counters, forget: Callable[[], None] | None
    ) -> None:
        self._learner = learner
        self._counters = counters
        self._forget = forget

    @property
    def batch(self) -> Batch | Minibatch:
        """What the last update learnt from."""
        return self._learner.batch

    @property
    def warmup_steps(self) -> int:
        """As before."""
        return self._learner.warmup_steps

    def learn(self, updates: int) -> None:
        """Count the updates, and make room for the next rollout."""
        if updates and self._forget is not None:
            self._forget()
        self._counters.updates += updates

    def warm_up(self) -> None:
        """As before: the warm-up compiles and chooses."""
        self._learner.warm_up()


class SilentLog:
    """Takes what a log is told and keeps nothing."""

    def metrics(self, row: object) -> None:
        """Drop a row."""

    def phases(self, row: object) -> None:
        """Drop a row."""

    def episodes(self, clock_step: int, stats: EpisodeStats) -> None:
        """Drop ended episodes."""

    def tick(self) -> None:
        """Nothing waits."""

    def offsets(self) -> dict[str, int]:
        """Nothing was written."""
        return {}

    def close(self) -> None:
        """Nothing is open."""


def without_updates(loop: TrainLoop) -> None:
    """Collect only."""
    trainer = loop.ours.trainer
    forget = getattr(trainer.memory, "next_rollout", None)
    trainer.learner = IdleLearner(trainer.learner, trainer.counters, forget)


def without_logs(loop: TrainLoop) -> None:
    """Keep no metrics, episodes or reports."""
    run = loop.ours.run
    run.log.close()
    run.log = SilentLog()  # type: ignore[assignment]
    loop.ours.hooks = [hook for hook in loop.ours.hooks if not isinstance(hook, ReportHook)]


def pushing_one_by_one(loop: TrainLoop) -> None:
    """Store every transition by itself, as many hand-written loops do."""
    memory: Any = loop.ours.trainer.memory
    together = memory.write

    def one_by_one(before: StepBuffers, decision: Decision, after: StepBuffers) -> None:
        for i in range(len(after.reward)):
            rows = (_row(before, i), _row(decision, i), _row(after, i))
            together(*rows, np.array([i]))

    memory.write = one_by_one


def _row(record: Any, i: int) -> Any:
    """One environment's part of a record."""
    parts = {name: getattr(record, name) for name in record.__slots__}
    return type(record)(**{k: v if v is None else v[i : i + 1] for k, v in parts.items()})
