"""Compare `brisk tune` with an exhaustive grid search, from a deliberately poor start.

The grid measures every point of the tuner's search space: in each round all points have a slice of
training in a new random order, and the result of a point is the median over the rounds of its rate
over the median rate of the round. The best points have many more such rounds, so that the best of
all does not depend on luck. Slices far below the best rate are cut short. Then the tuner starts
from the poor config several times, with different seeds and without its cache. Each result is
compared with the best point of the grid in new slices, in turns. Prints Markdown; progress goes to
standard error.

    python benchmarks/tune_grid.py snake --algo dqn --num-envs 8 --engine torch
    python benchmarks/tune_grid.py gym:CartPole-v1 --algo ppo --num-envs 4 --update-steps 512 \\
        --engine torch --backend process
"""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from statistics import median
from typing import Annotated

import numpy as np
from msgspec import Meta

from briskrl.bench.compare import PairedComparison
from briskrl.cli.train import parse_args
from briskrl.tuning.config import TuneConfig
from briskrl.tuning.run import find_space, tune
from briskrl.tuning.space import Point
from briskrl.tuning.trials import TrialError, Trials

AGAIN = 8
"""Best points of the grid that are measured again."""
HOPELESS = 0.1
"""Share of the best rate below which a slice is cut off."""


@dataclass(frozen=True)
class GridConfig:
    """Settings of the comparison."""

    rounds: Annotated[int, Meta(ge=1)] = 5
    """Slices of every point."""
    rounds_again: Annotated[int, Meta(ge=1)] = 16
    """Further slices of the best points."""
    slice_s: Annotated[float, Meta(gt=0)] = 0.25
    """Seconds per slice."""
    budget: Annotated[float, Meta(gt=0)] = 120.0
    """Budget of the tuner in seconds."""
    repeats: Annotated[int, Meta(ge=1)] = 3
    """Runs of the tuner, each with another seed."""
    pairs: Annotated[int, Meta(ge=2)] = 24
    """Pairs of slices in the comparison with the best point of the grid."""


def measure(points: list[Point], trials: Trials, rounds: int) -> dict[Point, float]:
    """Median logarithm of each point's rate over the median of its round; the fastest first."""
    rng, best = np.random.default_rng(0), 0.0
    logs: dict[Point, list[float]] = {point: [] for point in points}
    for number in range(rounds):
        rates = {}
        for index in rng.permutation(len(points)):
            try:
                rate = trials.rate(points[index], HOPELESS * best)
                rates[points[index]], best = log(rate), max(rate, best)
            except TrialError as error:
                print(f"{points[index]}: {error}", file=sys.stderr)
        typical = median(rates.values())
        for point, value in rates.items():
            logs[point].append(value - typical)
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    known = {point: median(some) for point, some in logs.items() if len(some) == rounds}
    return dict(sorted(known.items(), key=lambda item: -item[1]))


def main(argv: list[str]) -> None:
    config, args = parse_args(argv, prog="tune_grid.py", own=GridConfig)
    bench: GridConfig = args.own
    space = find_space(config, TuneConfig())
    begin = time.perf_counter()
    with closing(Trials(space, "wall", bench.slice_s)) as trials:
        found = measure(space.points, trials, bench.rounds)
        again = measure(list(found)[:AGAIN], trials, bench.rounds_again)
        grid_s = time.perf_counter() - begin
        best = next(iter(again))
        # Both sets of figures, on the scale of the second.
        shift = median(again[point] - found[point] for point in again)
        found = again | {p: found[p] + shift for p in found if p not in again}
        print(f"| {' | '.join([*space.axes, 'speed'])} |")
        print("|" + " --- |" * (len(space.axes) + 1))
        shown = dict.fromkeys([*again, space.start])
        for point in shown:
            cells = [str(value) for _, value in point.values]
            print(f"| {' | '.join(cells)} | {exp(found[point] - found[best]):.3f} |")
        print(
            f"\n{len(found)} points x {bench.rounds} slices, {len(again)} x {bench.rounds_again} "
            f"more, in {grid_s:.0f} s.\n",
            flush=True,
        )
        for repeat in range(bench.repeats):
            settings = TuneConfig(budget=bench.budget, fresh=True)
            outcome = tune(replace(config, seed=config.seed + repeat), settings)
            winner = next(p for p in space.points if p.values == outcome.best.values)
            comparison = PairedComparison(
                old=lambda: trials.rate(best), new=partial(trials.rate, winner)
            )
            comparison.take_turns(bench.pairs if winner != best else 0)
            estimate = comparison.estimate()
            ratio = f"{estimate.ratio:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
            gain = outcome.gain
            gained = (
                "-" if gain is None else f"{gain.ratio:.2f} ({gain.low:.2f} to {gain.high:.2f})"
            )
            tried = f"{len(outcome.findings.gains)} of {outcome.points}"
            print(
                f"- seed {repeat}, {outcome.seconds:.0f} s, {tried} points tried: {outcome.best}; "
                f"{gained} times the start, {ratio if winner != best else '1, the same point'} of "
                f"the grid's best",
                flush=True,
            )
    print(f"\nMade by `python benchmarks/tune_grid.py {shlex.join(argv)}`.")


if __name__ == "__main__":
    main(sys.argv[1:])
