"""Full speed from the first episode: pay for compiling and first calls before the clock starts."""

from __future__ import annotations

from time import perf_counter

from briskrl.algos.engines import EngineName
from briskrl.training.trainer import Trainer

_ROUNDS = 2
"""Rehearsals that each engine is timed over; the fastest counts, as it was disturbed the least."""

_CLEARLY = 1.1
"""How much faster torch must be to be chosen: near ties must not hang on the machine's mood."""


def warm_up(trainer: Trainer, *, choose: bool = True) -> float:
    """Run a few real iterations, then put everything back; returns the seconds it took.

    The session must be fresh: its memory is emptied. Training afterwards is the same to the bit as
    without a warm-up, unless the choice of the engine is left to it.

    Args:
        trainer: What to warm up.
        choose: Time the engines if there are several, and go on with the fastest.
    """
    begin = perf_counter()
    trainer.start()
    fresh = trainer.state()
    for _ in range(trainer.learner.warmup_steps):
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
    trainer.load_parts(fresh.parts, fresh.counters)
    engines.use(chosen)
    trainer.engine_note = note
    if not trainer.collector.is_exact:
        # Such environments cannot be put back, but the same seed begins the same episodes again.
        trainer.start()
    trainer.env.drain_stats()
    trainer.algo.progress(trainer.counters)
    trainer.timer.reset()
    return perf_counter() - begin


def _time_engines(trainer: Trainer) -> dict[EngineName, float]:
    """Seconds of a rehearsal with each engine, in turns."""
    engines = trainer.algo.engines
    best = dict.fromkeys(engines.candidates, float("inf"))
    for _ in range(_ROUNDS):
        for name in engines.candidates:
            engines.use(name)
            begin = perf_counter()
            trainer.learner.warm_up()
            best[name] = min(best[name], perf_counter() - begin)
    return best


def _choose(seconds: dict[EngineName, float]) -> tuple[EngineName, str]:
    """The engine to go on with, and why."""
    ratio = seconds["torch"] / seconds["fused"]
    if ratio * _CLEARLY >= 1:
        return "fused", f"engine fused: {ratio:.1f} times as fast as torch in the warm-up"
    return "torch", f"engine torch: {1 / ratio:.1f} times as fast as fused in the warm-up"
