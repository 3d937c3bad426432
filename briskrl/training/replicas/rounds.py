"""One replica's part of a run: rounds of collecting and learning, the same on all of them.

A round ends when updates are due, so that nothing is exchanged while environments are stepped. Its
length depends on counts alone, never on time: all replicas come to the same point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import process_time

import numpy as np

from briskrl.algos.components import Replication
from briskrl.core.errors import ConfigError
from briskrl.core.phase import Phase
from briskrl.core.types import EpisodeStats
from briskrl.nets.replica_group import ReplicaGroup
from briskrl.training.periodic_evaluation import PeriodicEvaluation
from briskrl.training.replicas.exchange import Decision, Ended, Exchange, Round
from briskrl.training.trainer import Trainer

MAX_ITERATIONS = 128
"""Iterations of a round without updates, such as those before a replay buffer is filled. A stop
request waits for the end of the round."""
_CHECK_EVERY = 16
"""Rounds between two comparisons of the networks of all replicas."""


class Rounds:
    """Collects and learns with the other replicas.

    Args:
        trainer: That of this replica.
        group: The replicas.
    """

    def __init__(self, trainer: Trainer, group: ReplicaGroup) -> None:
        self._trainer = trainer
        self._group = group
        self._replication = check_replicable(trainer)
        self._exchange = Exchange(group, trainer.num_envs)
        self._evaluation = PeriodicEvaluation(trainer.config)
        self._begin_cpu = process_time()
        self._number = 0
        self._averaged = False
        """Whether this round has made the networks equal."""

    @property
    def is_done(self) -> bool:
        """Whether the budget of the run is spent."""
        counters = self._trainer.counters
        return self._is_spent(counters.episodes)

    def ends_early(self, *, reached: bool = False) -> bool:
        """Whether the run ends because an evaluation of this round has reached `stop_at`.

        Args:
            reached: What the first replica has found.
        """
        if self._evaluation.stops and self._evaluation.is_due(self._trainer):
            return bool(self._group.gather(np.array([reached]))[0, 0])
        return False

    def begin(self) -> None:
        """Count times from now on."""
        self._begin_cpu = process_time()
        self._group.take_waited_ns()
        self._trainer.timer.reset()

    def run(self, decide: Callable[[], Decision]) -> Round:
        """Do one round; returns what was exchanged.

        Args:
            decide: Called when the counters are those after collecting, except for the episodes of
                the others; only what the first replica decides counts.
        """
        trainer, counters = self._trainer, self._trainer.counters
        before, steps_before = counters.episodes, counters.env_steps
        ended, due = self._collect()
        trainer.last_collected = counters.env_steps - steps_before
        digest = self._digest()
        found = self._exchange.run(
            ended,
            env_steps=counters.env_steps,
            cpu_s=process_time() - self._begin_cpu,
            digest=digest,
            decision=decide(),
        )
        self._add_waiting()
        counters.episodes = before + found.episodes
        trainer.learner.learn(due)
        self._add_waiting(Phase.UPDATE)
        self._follow_curriculum(found.ended)
        return found

    def _collect(self) -> tuple[list[Ended], int]:
        """Collect until updates are due; returns ended episodes and the updates to do.

        Off-policy updates are done already, up to those that replicas do without each other.
        """
        trainer, counters = self._trainer, self._trainer.counters
        episodes, updates = counters.episodes, counters.updates
        ended: list[Ended] = []
        for _ in range(MAX_ITERATIONS):
            collected, stats = trainer.collect()
            due = trainer.schedule.due(collected * self._group.size)
            counters.iterations += 1
            if stats.count:
                ended.append((counters.env_steps, stats))
            if self._replication.average is not None:
                trainer.learner.learn(due)
                due = 0
            if due or self._averages(updates) or self._is_spent(episodes):
                break
        return ended, due

    def _averages(self, updates: int) -> bool:
        """Average the networks if that is due; `updates` were done before this round."""
        replication = self._replication
        if replication.average is None:
            return False
        every = replication.average_every
        self._averaged = self._trainer.counters.updates // every > updates // every
        if self._averaged:
            replication.average()
        return self._averaged

    def _is_spent(self, episodes: int) -> bool:
        """Whether the budget is spent after this number of episodes."""
        return self._trainer.config.budget.is_spent(self._trainer.counters.env_steps, episodes)

    def _digest(self) -> int:
        """That of the networks, every few times that they must be equal."""
        if self._replication.average is not None and not self._averaged:
            return 0
        self._number += 1
        return self._replication.digest() if self._number % _CHECK_EVERY == 0 else 0

    def _add_waiting(self, inside: Phase | None = None) -> None:
        """Count the time of exchanges as averaging, and not in the phase they were a part of."""
        waited, timer = self._group.take_waited_ns(), self._trainer.timer
        timer[Phase.AVERAGE].add(waited)
        if inside is not None:
            timer[inside].total_ns -= waited

    def _follow_curriculum(self, ended: Sequence[Ended]) -> None:
        """Begin the next stage of the curriculum if all replicas together have passed one."""
        trainer = self._trainer
        if trainer.config.curriculum and trainer.curriculum.observe(
            trainer.last_collected,
            EpisodeStats.joined([stats for _, stats in ended]) if ended else _NO_EPISODES,
        ):
            trainer.enter_next_stage()


_NO_EPISODES = EpisodeStats(
    env=np.zeros(0, np.int32),
    steps=np.zeros(0, np.int32),
    returns=np.zeros(0, np.float32),
    score=np.zeros(0, np.float32),
    won=np.zeros(0, np.bool_),
    cause=np.zeros(0, np.uint8),
)


def check_replicable(trainer: Trainer) -> Replication:
    """How the replicas of a run learn together.

    Raises:
        ConfigError: This algorithm or environment cannot be trained by replicas.
    """
    config, components = trainer.config, trainer.components
    if trainer.device.type == "mps":
        raise ConfigError("Replicas are for the devices cpu and cuda. Use --device cpu.")
    if trainer.env.async_env is not None:
        raise ConfigError(
            "--replicas needs environments that step together, not --backend async, which auto may "
            "choose: use --backend process."
        )
    if components.pretraining is not None:
        raise ConfigError(
            "--replicas cannot imitate a teacher before training: leave out --pretrain-from, or "
            "train with one process."
        )
    if components.replication is None:
        raise ConfigError(
            f"The algorithm {config.algo!r} cannot be trained by replicas; leave out --replicas."
        )
    return components.replication
