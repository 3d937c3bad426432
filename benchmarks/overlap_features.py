"""Measure what each part of `--overlap` gains: the same run with one part off, in turns.

    python benchmarks/overlap_features.py [--algo dqn] [--turns 15] [--seconds 0.5] [--busy]

DQN on Snake in steps per second of wall time. `--busy` keeps every core busy with other processes.
A part whose gain is below 5 % is not worth its code.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from math import log
from time import perf_counter
from typing import Any

from briskrl.bench.compare import PairedComparison, Slice, estimate
from briskrl.bench.engines import DQN_ON_SNAKE, busy_cores
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up

Change = Callable[[Trainer], None]


def plain(trainer: Trainer) -> None:
    """Leave every part on."""


def without_batch_prefetch(trainer: Trainer) -> None:
    """Batches are sampled by the learner thread, when their updates begin."""
    overlap: Any = trainer.overlap
    overlap._learner.prefetch = lambda updates: None


def without_precomputed_targets(trainer: Trainer) -> None:
    """TD targets are computed within their updates."""
    overlap: Any = trainer.overlap
    overlap._precompute_targets = lambda batch: None


def without_helping(trainer: Trainer) -> None:
    """The collecting thread waits for updates under way instead of computing half of the rest."""
    overlap: Any = trainer.overlap
    overlap._compiled.help_until = lambda batch, end: None


VARIANTS: dict[str, Change] = {
    "full": plain,
    "no_batch_prefetch": without_batch_prefetch,
    "no_precomputed_targets": without_precomputed_targets,
    "no_helping": without_helping,
}


def training_rate(trainer: Trainer, change: Change, seconds: float) -> Slice:
    """A slice of about `seconds` with a change; returns steps per second."""

    def run() -> float:
        change(trainer)
        begin, first = perf_counter(), trainer.counters.env_steps
        while perf_counter() - begin < seconds:
            trainer.iterate()
        return (trainer.counters.env_steps - first) / (perf_counter() - begin)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algo", default="dqn", help="dqn, per-dqn or rainbow")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--busy", action="store_true", help="keep every core busy")
    options = parser.parse_args()
    config = replace(DQN_ON_SNAKE, engine="fused", overlap=True, algo=options.algo)
    slices = {}
    for name, change in VARIANTS.items():
        trainer = Trainer(complete(config))
        warm_up(trainer)
        while trainer.counters.updates == 0:
            trainer.iterate()
        slices[name] = training_rate(trainer, change, options.seconds)
    comparison = PairedComparison(**slices)
    with busy_cores() if options.busy else nullcontext():
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
