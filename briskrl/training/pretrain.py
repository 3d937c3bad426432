"""Behavior cloning of a teacher before the first step: its games pass through the run's memory.

A rollout buffer is filled and learned from again and again; a replay buffer is filled once and
keeps the teacher's transitions until newer ones displace them. None of it counts as a step of the
run. Pretraining is done in parts, between which its state can be saved.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from time import monotonic

import numpy as np

from briskrl.algos.components import OffPolicyComponents, Pretraining
from briskrl.core.counters import Counters
from briskrl.core.types import Array, Bools, Decision, State
from briskrl.envs.registry import Teacher, make_teacher
from briskrl.training.collector import Collecting
from briskrl.training.storage.checkpoint import RunState
from briskrl.training.trainer import Trainer

UPDATES_PER_PART = 64
"""Updates on replayed transitions in one part of pretraining."""

NOTE_EVERY_S = 10.0
"""Seconds between two notes on the progress."""

_TEACHER = "teacher."
"""Prefix of the teacher's arrays in a saved state."""


class TeacherActor:
    """Acts as a teacher does; see Algorithm.act."""

    def __init__(self, teacher: Teacher) -> None:
        self._teacher = teacher

    def act(self, obs: Array, mask: Bools | None, counters: Counters, out: Decision) -> None:
        """Write the teacher's actions; log probabilities have no meaning here."""
        out.action[...] = self._teacher.actions()
        out.log_prob.fill(0)


def pretrain(
    trainer: Trainer,
    *,
    note: Callable[[str], None] = lambda text: None,
    between: Callable[[Pretrainer], bool] = lambda pretrainer: True,
) -> list[float] | None:
    """Imitate the teacher that the config names, if there is one and it was not done before.

    Afterwards the trainer is as if newly started, except for what was learned: networks,
    statistics and random streams, and the teacher's transitions in a replay buffer.

    Args:
        trainer: What to pretrain, started, or loaded from a checkpoint.
        note: Receives messages about the progress.
        between: Called after every part; returns whether to go on.

    Returns:
        The losses over time: cross entropies, or TD and margin losses. None if it was stopped; the
        state of the trainer must not be saved then, but `Pretrainer.state` in `between`.
    """
    settings = trainer.components.pretraining
    if trainer.pretrained or settings is None:
        return []
    with closing(Pretrainer(trainer, settings, note)) as pretrainer:
        for _ in pretrainer.parts:
            if not between(pretrainer):
                return None
    return pretrainer.finish()


class Pretrainer:
    """Pretraining under way.

    Args:
        trainer: What to pretrain. Until `close`, it collects with the teacher and counts the
            teacher's steps.
        settings: The teacher and the number of updates.
        note: Receives messages about the progress.
    """

    def __init__(
        self, trainer: Trainer, settings: Pretraining, note: Callable[[str], None]
    ) -> None:
        self._trainer, self._settings, self._note = trainer, settings, note
        self._before = trainer.collector, trainer.counters.state(), trainer.schedule.state()
        self._teacher = make_teacher(trainer.config.env, settings.teacher, trainer.env)
        self._saved, trainer.pretraining = trainer.pretraining, None
        self._plays = False
        self._totals = ""
        self._noted = monotonic()
        self.losses: list[float] = []
        """Losses so far, one for each part."""
        self.parts = self._run()
        """Does the next part with every `next`."""

    def state(self) -> RunState:
        """The state of a run that continues here, between two parts."""
        trainer = self._trainer
        state = trainer.state()
        arrays = {_TEACHER + name: array for name, array in self._teacher.state().items()}
        scalars = {
            "plays": self._plays,
            "counters": state.counters,
            "schedule": trainer.schedule.state(),
        }
        state.states["pretraining"] = State(arrays | {"losses": np.array(self.losses)}, scalars)
        _, counters, schedule = self._before
        state.states["bookkeeping"].scalars["cadence"] = schedule
        state.counters = counters
        return state

    def finish(self) -> list[float]:
        """Begin the run with what was learned, after all parts are done; returns the losses."""
        trainer, losses = self._trainer, self.losses
        change = f", loss from {losses[0]:.3f} to {losses[-1]:.3f}" if losses else ""
        self._note(f"pretrained: {self._totals}{change}")
        if not isinstance(trainer.components, OffPolicyComponents):
            trainer.memory.clear()
        trainer.algo.progress(trainer.counters)
        trainer.start()
        trainer.pretrained = True
        return losses

    def close(self) -> None:
        """Let the trainer collect and count as before."""
        self.parts.close()
        trainer = self._trainer
        played, updates = trainer.counters.env_steps, trainer.counters.updates
        self._totals = f"{played:,} steps of {self._settings.teacher}, {updates:,} updates"
        trainer.collector, counters, schedule = self._before
        trainer.counters.load_state(counters)
        trainer.schedule.load_state(schedule)

    def _run(self) -> Generator[None]:
        trainer, components = self._trainer, self._trainer.components
        self._load_plans()
        self._note(f"pretraining: {self._settings.teacher} plans its games")
        while self._teacher.prepare():
            self._note_at_times("its teacher still plans")
            yield
        self._begin_games()
        with self._settings.behavior_cloning():
            if isinstance(components, OffPolicyComponents):
                yield from self._clone_replayed(trainer.collector, components)
            else:
                yield from self._clone_rollouts(trainer.collector)

    def _load_plans(self) -> None:
        if self._saved is not None:
            arrays = self._saved.arrays
            self._teacher.load_state(
                {
                    name.removeprefix(_TEACHER): array
                    for name, array in arrays.items()
                    if name.startswith(_TEACHER)
                }
            )
            self.losses = arrays["losses"].tolist()

    def _begin_games(self) -> None:
        """Let the teacher play in the environments, from the beginning or where it was."""
        trainer, saved = self._trainer, self._saved
        collector = trainer.build_collector(TeacherActor(self._teacher))
        if saved is not None and saved.scalars["plays"]:
            collector.load_state(trainer.collector.state())
            trainer.counters.load_state(saved.scalars["counters"])
            trainer.schedule.load_state(saved.scalars["schedule"])
        else:
            collector.start(trainer.start_seed)
        trainer.collector = collector
        self._plays = True

    def _clone_rollouts(self, collector: Collecting) -> Iterator[None]:
        """Imitate whole rollouts until all updates are done."""
        trainer, counters = self._trainer, self._trainer.counters
        while counters.updates < self._settings.updates:
            due = 0
            while not due:
                due = trainer.schedule.due(collector.collect()[0])
            trainer.learner.learn(due)
            self._report()
            yield

    def _clone_replayed(
        self, collector: Collecting, components: OffPolicyComponents
    ) -> Iterator[None]:
        """Fill the replay buffer with the teacher's games, then learn."""
        trainer, counters = self._trainer, self._trainer.counters
        wanted, memory = components.pretrain_transitions, components.memory
        # The newest transitions of each environment cannot be sampled until others have followed.
        while counters.env_steps < wanted or not memory.can_sample(1):
            collector.collect()
            self._note_at_times(f"{counters.env_steps:,} of {wanted:,} transitions")
            yield
        trainer.memory.truncate_episodes(collector.now)
        while counters.updates < self._settings.updates:
            trainer.learner.learn(min(UPDATES_PER_PART, self._settings.updates - counters.updates))
            self._report()
            yield

    def _report(self) -> None:
        """Keep the loss, and write a note at times."""
        counters, total = self._trainer.counters, self._settings.updates
        loss = self._trainer.algo.progress(counters)[self._settings.loss]
        self.losses.append(loss)
        if counters.updates < total:
            self._note_at_times(f"{counters.updates:,} of {total:,} updates, loss {loss:.3f}")

    def _note_at_times(self, progress: str) -> None:
        """Write a note unless the last one is recent."""
        if monotonic() - self._noted > NOTE_EVERY_S:
            self._note(f"pretraining: {progress}")
            self._noted = monotonic()
