"""Behavior cloning of a teacher before the first step: its games pass through the run's memory.

A rollout buffer is filled and learned from again and again; a replay buffer is filled once and
keeps the teacher's transitions until newer ones displace them. None of it counts as a step of the
run.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from briskrl.algos.components import OffPolicyComponents, Pretraining
from briskrl.core.counters import Counters
from briskrl.core.types import Array, Bools, Decision
from briskrl.envs.registry import Teacher, make_teacher
from briskrl.training.collector import Collecting
from briskrl.training.trainer import Trainer

UPDATES_PER_CHECK = 64
"""Updates on replayed transitions between two checks of whether to stop."""

NOTE_EVERY_S = 10.0
"""Seconds between two notes on the progress."""


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
    stops: Callable[[], bool] = lambda: False,
) -> list[float] | None:
    """Imitate the teacher that the config names, if there is one and it was not done before.

    Afterwards the trainer is as if newly started, except for what was learned: networks,
    statistics and random streams, and the teacher's transitions in a replay buffer.

    Args:
        trainer: What to pretrain, started.
        note: Receives messages about the progress.
        stops: Returns whether to stop early.

    Returns:
        The losses over time: cross entropies, or TD and margin losses. None if it was stopped; the
        state of the trainer must not be saved then.
    """
    settings = trainer.components.pretraining
    if trainer.pretrained or settings is None:
        return []
    note(f"pretraining: {settings.teacher} plans its games")
    teacher = make_teacher(trainer.config.env, settings.teacher, trainer.env)
    counters_before, schedule_before = trainer.counters.state(), trainer.schedule.state()
    collector = trainer.build_collector(TeacherActor(teacher))
    collector.start(trainer.start_seed)
    components = trainer.components
    off_policy = isinstance(components, OffPolicyComponents)
    with settings.behavior_cloning():
        progress = _Progress(settings, note, stops)
        if isinstance(components, OffPolicyComponents):
            finished = _clone_replayed(trainer, collector, progress, components)
        else:
            finished = _clone_rollouts(trainer, collector, progress)
    played, updates = trainer.counters.env_steps, trainer.counters.updates
    trainer.counters.load_state(counters_before)
    trainer.schedule.load_state(schedule_before)
    if not finished:
        return None
    losses = progress.losses
    change = f", loss from {losses[0]:.3f} to {losses[-1]:.3f}" if losses else ""
    note(f"pretrained: {played:,} steps of {settings.teacher}, {updates:,} updates{change}")
    if not off_policy:
        trainer.memory.clear()
    trainer.algo.progress(trainer.counters)
    trainer.start()
    trainer.pretrained = True
    return losses


def _clone_rollouts(trainer: Trainer, collector: Collecting, progress: _Progress) -> bool:
    """Imitate whole rollouts until all updates are done; returns False if it was stopped."""
    counters = trainer.counters
    first = counters.updates
    while counters.updates - first < progress.total:
        due = 0
        while not due:
            due = trainer.schedule.due(collector.collect()[0])
        trainer.learner.learn(due)
        progress.report(counters.updates - first, trainer.algo.progress(counters))
        if progress.stops():
            return False
    return True


def _clone_replayed(
    trainer: Trainer, collector: Collecting, progress: _Progress, components: OffPolicyComponents
) -> bool:
    """Fill the replay buffer with the teacher's games, then learn; False if it was stopped."""
    collected = 0
    # The newest transitions of each environment cannot be sampled until others have followed.
    while collected < components.pretrain_transitions or not components.memory.can_sample(1):
        collected += collector.collect()[0]
        if progress.stops():
            return False
    trainer.memory.truncate_episodes(collector.now)
    for left in range(progress.total, 0, -UPDATES_PER_CHECK):
        trainer.learner.learn(min(left, UPDATES_PER_CHECK))
        done = progress.total - max(0, left - UPDATES_PER_CHECK)
        progress.report(done, trainer.algo.progress(trainer.counters))
        if progress.stops():
            return False
    return True


class _Progress:
    """Collects losses and reports now and then how far pretraining is."""

    def __init__(
        self, settings: Pretraining, note: Callable[[str], None], stops: Callable[[], bool]
    ) -> None:
        self.total = settings.updates
        self.losses: list[float] = []
        self.stops = stops
        self._key = settings.loss
        self._note = note
        self._noted = monotonic()

    def report(self, done: int, metrics: dict[str, float]) -> None:
        """Keep the loss, and write a note unless the last one is recent."""
        loss = metrics[self._key]
        self.losses.append(loss)
        if monotonic() - self._noted > NOTE_EVERY_S and done < self.total:
            self._note(f"pretraining: {done:,} of {self.total:,} updates, loss {loss:.3f}")
            self._noted = monotonic()
