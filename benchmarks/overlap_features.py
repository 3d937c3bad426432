"""Measure what each part of `--overlap` gains: the same run with one part off, in turns.

    python benchmarks/overlap_features.py [--turns 15] [--seconds 0.5]

Variants of DQN on Snake, two threads, in steps per second of wall time. A part whose gain is below
5 % is not worth its code.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from math import log
from time import perf_counter
from typing import Any

from briskrl.bench.compare import PairedComparison, Slice, estimate
from briskrl.bench.engines import DQN_ON_SNAKE
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up


def plain(trainer: Trainer) -> None:
    """Leave every part on."""


def without_batch_prefetch(trainer: Trainer) -> None:
    """Batches are sampled by the learner thread, when their updates begin."""
    overlap: Any = trainer.overlap
    overlap._learner.prefetch = lambda updates: None


def without_precomputed_targets(trainer: Trainer) -> None:
    """TD targets are computed within their updates; no gradient is begun early either."""
    overlap: Any = trainer.overlap
    overlap._precompute_targets = lambda batch: None


def without_early_gradient(trainer: Trainer) -> None:
    """The learner thread waits for its request instead of beginning the first gradient early."""
    overlap: Any = trainer.overlap
    compiled = overlap._compiled

    def precompute(batch: Any) -> None:
        running = overlap._under_way
        after = running.after if running else compiled.updates
        number = running.number if running else 0
        compiled.precompute_targets(batch, overlap.pending, started=after, finished=after + number)

    overlap._precompute_targets = precompute


def without_helping(trainer: Trainer) -> None:
    """The collecting thread waits for updates under way instead of computing half of the rest."""
    overlap: Any = trainer.overlap
    overlap._compiled.help_until = lambda batch, end: None


VARIANTS = {
    "full": plain,
    "no_batch_prefetch": without_batch_prefetch,
    "no_precomputed_targets": without_precomputed_targets,
    "no_early_gradient": without_early_gradient,
    "no_helping": without_helping,
}


def training_rate(trainer: Trainer, seconds: float) -> Slice:
    """A slice of about `seconds`; returns steps per second."""

    def run() -> float:
        begin, first = perf_counter(), trainer.counters.env_steps
        while perf_counter() - begin < seconds:
            trainer.iterate()
        return (trainer.counters.env_steps - first) / (perf_counter() - begin)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    slices = {}
    for name, change in VARIANTS.items():
        trainer = Trainer(complete(replace(DQN_ON_SNAKE, engine="fused", overlap=True)))
        warm_up(trainer)
        change(trainer)
        while trainer.counters.updates == 0:
            trainer.iterate()
        slices[name] = training_rate(trainer, options.seconds)
    comparison = PairedComparison(**slices)
    comparison.take_turns(options.turns, warm_up=True)
    full = comparison.rates["full"]
    for name, rates in comparison.rates.items():
        gain = estimate([log(a / b) for a, b in zip(full, rates, strict=True)])
        interval = f"({gain.low:.3f} to {gain.high:.3f})"
        print(
            f"{name:24} {comparison.median(name):10,.0f} steps/s  gain {gain.ratio:.3f} {interval}"
        )


if __name__ == "__main__":
    main()
