"""Learning from a teacher before the first step: its games pass through the normal memory.

A rollout memory is filled and learnt from again and again; a replay memory is filled once and keeps
the teacher's games until newer ones displace them. Nothing of it counts as a step of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from briskrl.core.counters import Counters
from briskrl.core.types import Array, Bools, Decision
from briskrl.envs.teachers import Teacher, make_teacher
from briskrl.training.collector import Collecting
from briskrl.training.trainer import Trainer

UPDATES_AT_ONCE = 64
"""Updates on replayed transitions between two looks at whether to stop."""

NOTE_EVERY_S = 10.0
"""Seconds between two notes on how far it is."""


class TeacherActor:
    """Decides what a teacher would do; see Algorithm.act."""

    def __init__(self, teacher: Teacher) -> None:
        self._teacher = teacher

    def act(self, obs: Array, mask: Bools | None, counters: Counters, out: Decision) -> None:
        """Write the teacher's actions; chances mean nothing here."""
        out.action[...] = self._teacher.actions()
        out.log_prob.fill(0)


def pretrain(
    trainer: Trainer,
    *,
    note: Callable[[str], None] = lambda text: None,
    stops: Callable[[], bool] = lambda: False,
) -> list[float] | None:
    """Learn from the teacher that the config names, if it names one and that is still to be done.

    The session is then as if newly started, except for what was learnt: networks, statistics and
    random streams, and the teacher's transitions in a replay memory.

    Args:
        trainer: What to pretrain, started.
        note: Is told what happens.
        stops: Whether to give up.

    Returns:
        How the loss fell: cross entropies, or value and margin losses. None if it was given up; the
        session is in no state to be saved then.
    """
    if trainer.pretrained:
        return []
    config = trainer.config
    name = config.algo_config.pretrain_from
    note(f"pretraining: {name} plans its games")
    teacher = make_teacher(config.env, name, trainer.env)
    counted, earned = trainer.counters.state(), trainer.cadence.state()
    collector = trainer.build_collector(TeacherActor(teacher))
    collector.start(trainer.start_seed)
    replays = not hasattr(trainer.memory, "next_slot")
    with trainer.algo.behavior_cloning():
        losses = (_replayed if replays else _rolled_out)(trainer, collector, note, stops)
    played, updates = trainer.counters.env_steps, trainer.counters.updates
    trainer.counters.load_state(counted)
    trainer.cadence.load_state(earned)
    if losses is None:
        return None
    change = f", loss {losses[0]:.3f} at first, {losses[-1]:.3f} now" if losses else ""
    note(f"pretrained: {played:,} steps of {name}, {updates:,} updates{change}")
    if not replays:
        trainer.memory.clear()
    trainer.algo.progress(trainer.counters)
    trainer.start()
    trainer.pretrained = True
    return losses


def _rolled_out(
    trainer: Trainer,
    collector: Collecting,
    note: Callable[[str], None],
    stops: Callable[[], bool],
) -> list[float] | None:
    """Imitate whole rollouts until all updates are done; returns their losses."""
    losses: list[float] = []
    wanted, counters = trainer.config.algo_config.pretrain_steps, trainer.counters
    progress = _Progress(wanted, note)
    first = counters.updates
    while counters.updates - first < wanted:
        due = 0
        while not due:
            due = trainer.cadence.due(collector.collect()[0])
        trainer.learner.learn(due)
        losses.append(trainer.algo.progress(counters)["policy_loss"])
        progress.tell(counters.updates - first, losses[-1])
        if stops():
            return None
    return losses


def _replayed(
    trainer: Trainer,
    collector: Collecting,
    note: Callable[[str], None],
    stops: Callable[[], bool],
) -> list[float] | None:
    """Fill the memory with the teacher's games, then learn; returns some losses."""
    config, losses = trainer.config.algo_config, []
    collected = 0
    while collected < min(config.pretrain_transitions, config.buffer_size):
        collected += collector.collect()[0]
        if stops():
            return None
    trainer.memory.truncate_episodes(collector.now)
    progress = _Progress(config.pretrain_steps, note)
    for left in range(config.pretrain_steps, 0, -UPDATES_AT_ONCE):
        trainer.learner.learn(min(left, UPDATES_AT_ONCE))
        losses.append(trainer.algo.progress(trainer.counters)["loss"])
        progress.tell(config.pretrain_steps - max(0, left - UPDATES_AT_ONCE), losses[-1])
        if stops():
            return None
    return losses


class _Progress:
    """Says now and then how far it is, if it takes long."""

    def __init__(self, wanted: int, note: Callable[[str], None]) -> None:
        self._wanted = wanted
        self._note = note
        self._told = monotonic()

    def tell(self, done: int, loss: float) -> None:
        """Say it, unless something has been said lately."""
        if monotonic() - self._told > NOTE_EVERY_S and done < self._wanted:
            self._note(f"pretraining: {done:,} of {self._wanted:,} updates, loss {loss:.3f}")
            self._told = monotonic()
