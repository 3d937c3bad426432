"""`brisk train` as a loop to examine: any config, in a temporary run folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from briskrl.algos.dqn.config import DQNConfig
from briskrl.bench.train_loop import BenchTrainLoop
from briskrl.core.counters import Counters
from briskrl.core.phase import PhaseTimer
from briskrl.core.scratch_folder import ScratchFolder
from briskrl.core.types import Batch, Decision, EpisodeStats, Minibatch, StepBuffers
from briskrl.memory.rollout import RolloutBuffer
from briskrl.training.config import TrainConfig
from briskrl.training.hooks import ReportHook
from briskrl.training.learner import Learner
from briskrl.training.warmup import warm_up

Changes = Mapping[str, Any]
"""New values by field of TrainConfig, or by table and field: `algo_config.batch_size`."""
EARLY_START = 4
"""Batches collected before learning starts; the time before that is not examined."""


class TrainLoop:
    """The loop of `brisk train`, from the end of its warm-up.

    Args:
        config: Complete training config. Its run folder is not used.
        alter: Functions that modify the loop's parts once they are built.
    """

    def __init__(
        self, config: TrainConfig, alter: Sequence[Callable[[TrainLoop], None]] = ()
    ) -> None:
        self._folder = ScratchFolder("brisk-doctor-")
        try:
            self.inner = BenchTrainLoop(
                _for_examination(config), Path(self._folder.name) / "run", saves=True
            )
        except BaseException:
            self._folder.cleanup()
            raise
        try:
            for change in alter:
                change(self)
            if config.warmup:
                warm_up(self.inner.trainer)
            else:
                self.inner.trainer.start()
            self.inner.run.begin(0.0)
        except BaseException:
            self.close()
            raise

    @property
    def timer(self) -> PhaseTimer:
        """Where the phases are counted."""
        return self.inner.trainer.timer

    @property
    def steps(self) -> int:
        """Transitions so far."""
        return self.inner.trainer.counters.env_steps

    @property
    def updates(self) -> int:
        """Updates so far."""
        return self.inner.trainer.counters.updates

    @property
    def episodes(self) -> int | None:
        """Episodes so far."""
        return self.inner.trainer.counters.episodes

    def enter(self) -> None:
        """Set torch's thread count, which belongs to the process, to that of this run."""
        torch.set_num_threads(self.inner.trainer.config.num_threads)
        torch.set_flush_denormal(True)

    def leave(self) -> None:
        """Nothing to restore: the next loop sets its own threads."""

    def iterate(self) -> None:
        """Run one iteration, with logging and checkpoints when they are due."""
        self.inner.iterate()

    def close(self) -> None:
        """Release everything and remove the folder."""
        try:
            self.inner.close()
        finally:
            with suppress(OSError):
                self._folder.cleanup()


def _for_examination(config: TrainConfig) -> TrainConfig:
    """The config without an end, with an early start of learning."""
    config = replace(config, run_dir=None, steps=10**12, episodes=None, max_episodes=None)
    algo = config.algo_config
    if isinstance(algo, DQNConfig):
        # Schedules over steps stay as they are; only the wait is cut short.
        early = min(algo.learning_starts, EARLY_START * algo.batch_size)
        config = changed(config, {"algo_config.learning_starts": early})
    return config


class IdleLearner:
    """A learner whose updates do nothing and take no time; everything else stays the same."""

    def __init__(
        self, learner: Learner, counters: Counters, next_rollout: Callable[[], None] | None
    ) -> None:
        self._learner = learner
        self._counters = counters
        self._next_rollout = next_rollout

    @property
    def batch(self) -> Batch | Minibatch:
        """Batch of the last update."""
        return self._learner.batch

    @property
    def warmup_steps(self) -> int:
        """Steps of the warm-up, unchanged."""
        return self._learner.warmup_steps

    def learn(self, updates: int) -> None:
        """Count the updates and start the next rollout."""
        if updates and self._next_rollout is not None:
            self._next_rollout()
        self._counters.updates += updates

    def warm_up(self) -> None:
        """Warm up as usual: this compiles and selects the engine."""
        self._learner.warm_up()


class SilentLog:
    """A metric log that drops everything."""

    def metrics(self, row: object) -> None:
        """Drop a row."""

    def phases(self, row: object) -> None:
        """Drop a row."""

    def episodes(self, env_steps: int, stats: EpisodeStats) -> None:
        """Drop finished episodes."""

    def tick(self) -> None:
        """Nothing waits."""

    def offsets(self) -> dict[str, int]:
        """Nothing was written."""
        return {}

    def close(self) -> None:
        """Nothing is open."""


def without_updates(loop: TrainLoop) -> None:
    """Replace updates by nothing."""
    trainer = loop.inner.trainer
    memory = trainer.memory
    next_rollout = memory.next_rollout if isinstance(memory, RolloutBuffer) else None
    trainer.learner = IdleLearner(trainer.learner, trainer.counters, next_rollout)


def without_logs(loop: TrainLoop) -> None:
    """Drop metrics, episodes and progress reports."""
    run = loop.inner.run
    run.log.close()
    run.log = SilentLog()  # type: ignore[assignment]
    loop.inner.hooks = [hook for hook in loop.inner.hooks if not isinstance(hook, ReportHook)]


def pushing_one_by_one(loop: TrainLoop) -> None:
    """Store transitions one at a time, as many hand-written loops do."""
    memory: Any = loop.inner.trainer.memory
    together = memory.write

    def one_by_one(before: StepBuffers, decision: Decision, after: StepBuffers) -> None:
        for i in range(len(after.reward)):
            rows = (_row(before, i), _row(decision, i), _row(after, i))
            together(*rows, np.array([i]))

    memory.write = one_by_one


def _row(record: Any, i: int) -> Any:
    """The part of a record that belongs to environment `i`."""
    parts = {name: getattr(record, name) for name in record.__slots__}
    return type(record)(**{k: v if v is None else v[i : i + 1] for k, v in parts.items()})


def changed(config: TrainConfig, changes: Changes) -> TrainConfig:
    """The config with some values replaced."""
    for name, value in changes.items():
        table, dot, field = name.partition(".")
        if dot:
            nested = replace(getattr(config, table), **{field: value})
            config = replace(config, **{table: nested})
        else:
            config = replace(config, **{name: value})
    return config


def as_flags(changes: Changes) -> str:
    """The changes as command-line flags of `brisk train`."""
    return " ".join(_flag(name.rpartition(".")[2], value) for name, value in changes.items())


def _flag(field: str, value: Any) -> str:
    name = field.replace("_", "-")
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    if isinstance(value, float):
        return f"--{name} {value:g}"
    if isinstance(value, tuple | list):
        return f"--{name} {','.join(map(str, value))}"
    return f"--{name} {value}"
