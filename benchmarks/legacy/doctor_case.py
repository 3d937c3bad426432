"""`brisk doctor legacy`: the slow example loop, with experiments that remove each of its faults."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.legacy.trainer import (
    LegacyReplay,
    LegacyTrainer,
    Transitions,
    flood_features,
    games_of,
    push_one_by_one,
)
from briskrl.bench.snake_dqn import snake_dqn
from briskrl.core.phase import Phase, PhaseTimer
from briskrl.core.types import EpisodeStats
from briskrl.doctor.experiments.base import Experiment, Skipped
from briskrl.doctor.observation import Observation
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv

NETWORK = snake_dqn()


@dataclass(frozen=True, slots=True)
class Habits:
    """Inefficient habits of the slow loop."""

    pushes_one_by_one: bool = True
    updates_per_step: float = 0.25
    """num_envs // 4 after every vector step."""
    searches_in_python: bool = True
    """Whether the flood fill runs in Python, once per game and direction."""
    writes_every_episode: bool = True


class LegacyLoop:
    """The slow loop with some of its habits."""

    def __init__(self, num_envs: int, seed: int, habits: Habits) -> None:
        self.timer = PhaseTimer()
        self._habits = habits
        self._owed = 0.0
        with ExitStack() as stack:
            folder = stack.enter_context(TemporaryDirectory(prefix="brisk-doctor-"))
            console = stack.enter_context(open(os.devnull, "w"))
            table = stack.enter_context(open(Path(folder) / "legacy.csv", "w", newline=""))
            # The compiled environment has its own flood fill; the slow loop discards its result.
            config = SnakeConfig(obs="features" if habits.searches_in_python else "flood")
            self._env = SnakeVecEnv(num_envs, config=config)
            self._trainer = LegacyTrainer(self._env, NETWORK, seed, console=console, table=table)
            self._open = stack.pop_all()
        while self._trainer.replay.size < 4 * NETWORK.batch_size:
            self._collect()

    @property
    def steps(self) -> int:
        """Transitions so far."""
        return self._trainer.steps

    @property
    def updates(self) -> int:
        """Updates so far."""
        return self._trainer.updates

    @property
    def episodes(self) -> int | None:
        """Episodes so far."""
        return self._trainer.episodes

    def enter(self) -> None:
        """Use one torch thread, like all loops that are compared here."""
        torch.set_num_threads(1)

    def leave(self) -> None:
        """Nothing to restore."""

    def iterate(self) -> None:
        """Run one vector step and the updates that are due."""
        self._collect()
        self._owed += self._habits.updates_per_step * self._env.num_envs
        while self._owed >= 1:
            self._owed -= 1
            with self.timer[Phase.UPDATE]:
                self._trainer.train_step()

    def close(self) -> None:
        """Release everything."""
        self._env.close()
        self._open.close()

    def _collect(self) -> None:
        timer, trainer = self.timer, self._trainer
        with timer[Phase.ACT]:
            actions = trainer.select_actions()
        with timer[Phase.ENV]:
            step = trainer.step(actions)
            if self._habits.searches_in_python:
                board = self._env.config
                flood_features(games_of(self._env), board.height, board.width)
        with timer[Phase.STORE]:
            push = push_one_by_one if self._habits.pushes_one_by_one else push_together
            push(trainer.replay, step)
        with timer[Phase.LOG]:
            self._log(self._env.drain_stats())

    def _log(self, ended: EpisodeStats) -> None:
        if self._habits.writes_every_episode:
            self._trainer.log(ended)
        else:
            # Batched writes are rarer than the length of this run.
            self._trainer.episodes += ended.count


def push_together(replay: LegacyReplay, step: Transitions) -> None:
    """Store N transitions in one write per field."""
    at = (replay.position + np.arange(len(step.actions))) % replay.capacity
    replay.states[at] = step.states.numpy()
    replay.actions[at] = step.actions.numpy()
    replay.rewards[at] = step.rewards.numpy()
    replay.next_states[at] = step.next_states.numpy()
    replay.dones[at] = step.dones.numpy()
    replay.position = int(replay.position + len(at)) % replay.capacity
    replay.size = min(replay.size + len(at), replay.capacity)


class LegacyTarget:
    """The slow loop, and variants without one of its habits."""

    name = "legacy: the slow example loop"

    def __init__(self, num_envs: int = 256, seed: int = 0) -> None:
        self.num_envs = num_envs
        self.obs_size = 11
        self._seed = seed

    def open(self) -> LegacyLoop:
        """Build the loop with all its habits."""
        return LegacyLoop(self.num_envs, self._seed, Habits())

    def open_with(self, changes: Mapping[str, Any]) -> LegacyLoop:
        """Build the loop without some of its habits."""
        return LegacyLoop(self.num_envs, self._seed, replace(Habits(), **changes))

    def notes(self) -> list[str]:
        """Where the loop comes from."""
        return ["a slow training loop, kept for comparison; see brisk bench legacy --help"]

    def machine_fraction(self, seen: Observation) -> float | None:
        """None: its arithmetic is not counted."""
        return None

    def experiments(self, seen: Observation) -> Sequence[Experiment | Skipped]:
        """One experiment per habit."""
        return [
            self._try(
                "batched writes",
                "Would storing a vector step in one write help?",
                "store",
                {"pushes_one_by_one": False},
            ),
            self._try(
                "the usual ratio",
                "How much faster with one update in 32 transitions instead of one in 4?",
                "updates",
                {"updates_per_step": 1 / 32},
                alters="fewer updates per transition: cheaper steps, less learned from each",
            ),
            self._try(
                "compiled flood fill",
                "What does the flood fill in Python cost?",
                "flood",
                {"searches_in_python": False},
            ),
            self._try(
                "batched records",
                "What do a print and a flushed row per episode cost?",
                "write-per-episode",
                {"writes_every_episode": False},
            ),
        ]

    def _try(
        self, name: str, question: str, cause: str, changes: dict[str, Any], alters: str = ""
    ) -> Experiment:
        return Experiment(
            name=name,
            question=question,
            cause=cause,
            change=name,
            open=lambda: self.open_with(changes),
            changes=changes,
            alters=alters,
        )
