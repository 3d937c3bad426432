"""Full speed from the first episode: pay for compiling and first calls before the clock starts."""

from __future__ import annotations

from time import perf_counter

from briskrl.train.session import Session

UPDATES = 16
"""Enough for torch's allocator and thread-local caches to settle."""


def warm_up(session: Session) -> float:
    """Run a few real iterations, then put everything back; returns the seconds it took.

    The session must be fresh: its memory is emptied. Training afterwards is the same to the bit as
    without a warm-up.
    """
    begin = perf_counter()
    session.start()
    fresh = session.state()
    for _ in range(_iterations(session)):
        session.collector.collect()
    session.learner.learn(UPDATES)
    session.memory.clear()
    session.load_parts(fresh.parts, fresh.clock)
    session.algo.progress(session.clock)
    session.timer.reset()
    return perf_counter() - begin


def _iterations(session: Session) -> int:
    """Vector steps until a batch can be drawn."""
    config = session.config
    window = getattr(config.algo_config, "n_step", 1)
    return int(window) + 2 + -(-int(config.algo_config.batch_size) // config.num_envs)
