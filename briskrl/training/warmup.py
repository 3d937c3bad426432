"""Compile and run everything once before the clock starts, and choose the faster engine."""

from __future__ import annotations

from time import perf_counter

from briskrl.algos.engines import EngineName
from briskrl.training.trainer import Trainer

_ROUNDS = 2
"""Timed warm-ups of each engine; the fastest counts, because it was disturbed the least."""

_CLEARLY = 1.1
"""How much faster torch must be to be chosen, so that near ties do not depend on noise."""


def warm_up(trainer: Trainer, *, choose: bool = True) -> float:
    """Run a few real iterations, then restore everything; returns the seconds it took.

    The trainer must be new, because its memory is cleared. Training afterwards is bit-identical to
    training without a warm-up, unless the warm-up chooses another engine.

    Args:
        trainer: What to warm up.
        choose: Time the engines if there are several, and continue with the fastest.
    """
    begin = perf_counter()
    trainer.start()
    fresh = trainer.state()
    for _ in range(trainer.learner.warmup_steps):
        # A rollout of a single step is complete after the first one.
        if trainer.memory.has_room.any():
            trainer.collector.collect()
    trainer.collector.cancel_or_wait()
    engines = trainer.algo.engines
    chosen, note = engines.name, trainer.engine_note
    trainer.learner.warm_up()
    if trainer.overlap is not None:
        trainer.overlap.warm_up()
    if choose and len(engines.candidates) > 1:
        chosen, note = _choose(_time_engines(trainer))
    trainer.memory.clear()
    trainer.load_state(fresh.states, fresh.counters)
    engines.use(chosen)
    trainer.engine_note = note
    if not trainer.collector.is_exact:
        # Their state cannot be restored, but the same seed begins the same episodes again.
        trainer.start()
    trainer.env.drain_stats()
    trainer.algo.progress(trainer.counters)
    trainer.timer.reset()
    return perf_counter() - begin


def _time_engines(trainer: Trainer) -> dict[EngineName, float]:
    """Seconds of a learner warm-up with each engine, measured alternately."""
    engines = trainer.algo.engines
    best = dict.fromkeys(engines.candidates, float("inf"))
    for _ in range(_ROUNDS):
        for name in engines.candidates:
            engines.use(name)
            begin = perf_counter()
            trainer.learner.warm_up()
            best[name] = min(best[name], perf_counter() - begin)
    return trainer.agreed(best)


def _choose(seconds: dict[EngineName, float]) -> tuple[EngineName, str]:
    """The engine to continue with, and why."""
    ratio = seconds["torch"] / seconds["fused"]
    if ratio * _CLEARLY >= 1:
        return "fused", f"engine fused: {ratio:.1f} times as fast as torch in the warm-up"
    return "torch", f"engine torch: {1 / ratio:.1f} times as fast as fused in the warm-up"
