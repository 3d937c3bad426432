"""Full speed from the first episode: pay for compiling and first calls before the clock starts."""

from __future__ import annotations

from time import perf_counter

from briskrl.train.session import Session


def warm_up(session: Session) -> float:
    """Run a few real iterations, then put everything back; returns the seconds it took.

    The session must be fresh: its memory is emptied. Training afterwards is the same to the bit as
    without a warm-up.
    """
    begin = perf_counter()
    session.start()
    fresh = session.state()
    for _ in range(session.learner.rehearsal_steps):
        session.collector.collect()
    session.collector.settle()
    session.learner.rehearse()
    session.memory.clear()
    session.load_parts(fresh.parts, fresh.clock)
    if not session.collector.is_exact:
        # Such environments cannot be put back, but the same seed begins the same episodes again.
        session.start()
    session.env.drain_stats()
    session.algo.progress(session.clock)
    session.timer.reset()
    return perf_counter() - begin
