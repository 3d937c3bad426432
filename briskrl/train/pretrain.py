"""Learning from a teacher before the first step: its games pass through the normal memory.

A rollout memory is filled and learnt from again and again; a replay memory is filled once and keeps
the teacher's games until newer ones displace them. Nothing of it counts as a step of the run.
"""

from __future__ import annotations

from collections.abc import Callable

from briskrl.core.clock import Clock
from briskrl.core.types import Array, Bools, Decision
from briskrl.envs.teachers import Teacher, make_teacher
from briskrl.train.collector import Collecting
from briskrl.train.session import Session

UPDATES_AT_ONCE = 64
"""Updates on replayed transitions between two looks at whether to stop."""


class TaughtActor:
    """Decides what a teacher would do; see Algorithm.act."""

    def __init__(self, teacher: Teacher) -> None:
        self._teacher = teacher

    def act(self, obs: Array, mask: Bools | None, clock: Clock, out: Decision) -> None:
        """Write the teacher's actions; chances mean nothing here."""
        out.action[...] = self._teacher.actions()
        out.log_prob.fill(0)


def pretrain(
    session: Session,
    *,
    note: Callable[[str], None] = lambda text: None,
    stops: Callable[[], bool] = lambda: False,
) -> bool:
    """Learn from the teacher that the config names, if it names one and that is still to be done.

    The session is then as if newly started, except for what was learnt: networks, statistics and
    random streams, and the teacher's transitions in a replay memory.

    Args:
        session: What to pretrain, started.
        note: Is told what happens.
        stops: Whether to give up.

    Returns:
        Whether it is done; if not, the session is in no state to be saved.
    """
    if session.pretrained:
        return True
    config = session.config
    name = config.algo_config.pretrain_from
    note(f"pretraining: {name} plans its games")
    teacher = make_teacher(config.env, name, session.env)
    counted, earned = session.clock.state(), session.cadence.state()
    collector = session.build_collector(TaughtActor(teacher))
    collector.start(session.start_seed)
    replays = not hasattr(session.memory, "row")
    with session.algo.imitating():
        learn = _from_replay if replays else _from_rollouts
        if not learn(session, collector, note, stops):
            return False
    if not replays:
        session.memory.clear()
    session.clock.load_state(counted)
    session.cadence.load_state(earned)
    session.algo.progress(session.clock)
    session.start()
    session.pretrained = True
    return True


def _from_rollouts(
    session: Session,
    collector: Collecting,
    note: Callable[[str], None],
    stops: Callable[[], bool],
) -> bool:
    """Imitate whole rollouts until all updates are done; whether that was possible."""
    wanted, seen = session.config.algo_config.pretrain_steps, []
    first = session.clock.updates
    while session.clock.updates - first < wanted:
        due = 0
        while not due:
            count, _ = collector.collect()
            due = session.cadence.due(count)
        session.learner.learn(due)
        seen.append(session.algo.progress(session.clock)["policy_loss"])
        if stops():
            return False
    done = session.clock.updates - first
    note(f"pretrained: {done:,} updates, cross entropy {seen[0]:.3f} at first, {seen[-1]:.3f} now")
    return True


def _from_replay(
    session: Session,
    collector: Collecting,
    note: Callable[[str], None],
    stops: Callable[[], bool],
) -> bool:
    """Fill the memory with the teacher's games, then learn; whether that was possible."""
    config, collected, losses = session.config.algo_config, 0, []
    while collected < min(config.pretrain_transitions, config.buffer_size):
        collected += collector.collect()[0]
        if stops():
            return False
    session.memory.cut(collector.now)
    left = config.pretrain_steps
    while left > 0:
        count = min(left, UPDATES_AT_ONCE)
        session.learner.learn(count)
        losses.append(session.algo.progress(session.clock).get("loss", float("nan")))
        left -= count
        if stops():
            return False
    told = f", loss {losses[0]:.3f} at first, {losses[-1]:.3f} now" if losses else ""
    note(f"pretrained: {collected:,} transitions, {config.pretrain_steps:,} updates{told}")
    return True
