"""Is learning the same with both engines, and with and without `--overlap`?

Every algorithm trains on every environment with ten seeds per side. The sides use different seeds,
so that all runs are independent. At eight times during a run the greedy policy plays new games.
Final scores, and mean scores over the whole curve, are compared by an exact two-sided rank test
(Mann and Whitney 1947, ties by midranks), adjusted for the number of tests by Holm's rule (1979).
Bands are 95 % intervals of the mean over seeds. Every run is a line of a JSON Lines file, and an
interrupted study continues from it. Prints Markdown; progress goes to standard error.

    python benchmarks/engine_study.py engine_study.jsonl --jobs 2 --plot engines_learning.png
    python benchmarks/engine_study.py engine_study.jsonl --sides fused overlap --algos dqn rainbow
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl import TrainConfig
from briskrl.bench.snake_dqn import snake_run
from briskrl.bench.stopwatch import Stopwatch
from briskrl.bench.train_loop import present_score
from briskrl.plots import Line, Panel, draw_panels, save
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up

SIDES: dict[str, dict[str, object]] = {
    "fused": {"engine": "fused"},
    "torch": {"engine": "torch"},
    "overlap": {"engine": "fused", "overlap": True},
}
"""Variants; two of them are compared at a time."""
POINTS = 8
"""Evaluations of the greedy policy per run."""

STEPS = {
    ("snake", "dqn"): 500_000,
    ("snake", "rainbow"): 180_000,
    ("snake", "ppo"): 800_000,
    ("cartpole", "dqn"): 500_000,
    ("cartpole", "rainbow"): 180_000,
    ("cartpole", "ppo"): 800_000,
}
"""Transitions per run: ten to twenty seconds on one core with torch."""


@dataclass
class Run:
    """One training run."""

    env: str
    algo: str
    engine: str
    """One of SIDES."""
    seed: int
    limit: int
    """Transitions to train."""
    games: int
    """New games per score."""
    steps: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    """Mean score of the greedy policy, one per entry of `steps`."""
    updates: int = 0
    cpu_s: float = 0.0
    """Training alone, without warm-up and evaluation."""

    @property
    def name(self) -> tuple[object, ...]:
        """The settings that identify a run."""
        return (self.env, self.algo, self.engine, self.seed, self.limit, self.games)


def plan(
    tasks: Sequence[tuple[str, str]],
    *,
    first: int,
    seeds: int,
    games: int,
    scale: float,
    sides: Sequence[str] = ("fused", "torch"),
) -> Iterator[Run]:
    """All runs: first those of the first side, and all tasks with one seed before the next."""
    for number, engine in enumerate(sides):
        for seed in range(seeds):
            for env, algo in tasks:
                limit = round(STEPS[env, algo] * scale)
                yield Run(env, algo, engine, first + number * seeds + seed, limit, games)


def measure(run: Run) -> Run:
    """Train one run and evaluate its policy during training."""
    # Value methods have the settings of Snake on both tasks, with which the study was made.
    options: Any = {**snake_run(run.algo), **SIDES[run.engine]}
    config = TrainConfig(env=run.env, algo=run.algo, seed=run.seed, steps=run.limit, **options)
    watch = Stopwatch()
    with closing(Trainer(complete(config))) as trainer:
        warm_up(trainer)
        counters = trainer.counters
        for point in range(1, POINTS + 1):
            while counters.env_steps < run.limit * point // POINTS:
                with watch:
                    trainer.iterate()
            run.steps.append(counters.env_steps)
            run.scores.append(present_score(trainer, run.games, seed=1000 * run.seed + point))
        run.updates, run.cpu_s = counters.updates, watch.cpu_s
    return run


def study(planned: list[Run], path: Path, jobs: int) -> list[Run]:
    """Do the planned runs that are not in the file; returns all planned runs."""
    known = {run.name: run for run in read(path)}
    missing = [run for run in planned if run.name not in known]
    if not missing:
        return [known[run.name] for run in planned]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool, path.open("a") as file:
        for done in as_completed([pool.submit(measure, run) for run in missing]):
            run = done.result()
            known[run.name] = run
            file.write(json.dumps(asdict(run)) + "\n")
            file.flush()
            print(*run.name[:4], f"{run.scores[-1]:.1f} {run.cpu_s:.1f} s", file=sys.stderr)
    return [known[run.name] for run in planned]


def read(path: Path) -> list[Run]:
    if not path.exists():
        return []
    return [Run(**json.loads(line)) for line in path.read_text().splitlines()]


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """p-value of the exact two-sided rank test that both samples have the same distribution.

    Counts the subsets of all ranks of the size of the first sample, by their sum.
    """
    numbers = np.array([*first, *second])
    # Twice the midranks, which are integers.
    ranks = [int((numbers < x).sum() + (numbers <= x).sum() + 1) for x in numbers]
    size, total = len(first), sum(ranks)
    ways = [{0: 1}] + [{} for _ in range(size)]
    for rank in ranks:
        for count in range(size, 0, -1):
            for below, number in ways[count - 1].items():
                ways[count][below + rank] = ways[count].get(below + rank, 0) + number
    uneven = abs(sum(ranks[:size]) * len(numbers) - size * total)
    extreme = sum(
        number
        for value, number in ways[size].items()
        if abs(value * len(numbers) - size * total) >= uneven
    )
    return extreme / sum(ways[size].values())


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for the number of tests (Holm 1979)."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for passed, index in enumerate(np.argsort(p_values)):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - passed)))
        adjusted[index] = highest
    return adjusted


def band(curves: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """95 % interval of the mean over seeds at every point, by 10,000 resamples of (S, P) curves."""
    samples = np.random.default_rng(0).integers(0, len(curves), (10_000, len(curves)))
    low, high = np.quantile(curves[samples].mean(1), (0.025, 0.975), axis=0)
    return low, high


@dataclass(frozen=True)
class Comparison:
    """Both sides on one task; arrays are (seeds, points)."""

    env: str
    algo: str
    steps: list[int]
    curves: dict[str, NDArray[np.float64]]
    cpu_s: dict[str, float]

    @property
    def sides(self) -> tuple[str, ...]:
        """The two variants."""
        return tuple(self.curves)

    @property
    def p_final(self) -> float:
        """p-value for the final scores."""
        return rank_test(*(list(self.curves[side][:, -1]) for side in self.sides))

    @property
    def p_curve(self) -> float:
        """p-value for the mean scores over the whole curve: the speed of learning."""
        return rank_test(*(list(self.curves[side].mean(1)) for side in self.sides))

    @property
    def overlapping(self) -> int:
        """Number of points at which the bands overlap."""
        (low, high), (other_low, other_high) = (band(self.curves[name]) for name in self.sides)
        return int(((low <= other_high) & (other_low <= high)).sum())


def compare(runs: list[Run]) -> list[Comparison]:
    found = []
    sides = list(dict.fromkeys(run.engine for run in runs))
    for env, algo in STEPS:
        mine = [run for run in runs if (run.env, run.algo) == (env, algo)]
        if not mine:
            continue
        by_engine = {name: [run for run in mine if run.engine == name] for name in sides}
        curves = {name: np.array([run.scores for run in some]) for name, some in by_engine.items()}
        cpu_s = {name: fmean(run.cpu_s for run in some) for name, some in by_engine.items()}
        found.append(Comparison(env, algo, mine[0].steps, curves, cpu_s))
    return found


def table(found: list[Comparison]) -> str:
    sides = found[0].sides
    header = ["environment", "algorithm", "steps", *sides, "p", "p of curve", "by Holm"]
    header += ["bands overlap", f"CPU s {' / '.join(sides)}"]
    lines = [f"| {' | '.join(header)} |", "|" + " --- |" * len(header)]
    p_values = [(each.p_final, each.p_curve) for each in found]
    adjusted = holm([p for pair in p_values for p in pair])
    for number, each in enumerate(found):
        last = [each.curves[name][:, -1] for name in sides]
        cells = [
            each.env,
            each.algo,
            f"{each.steps[-1] / 1000:.0f} k",
            *(f"{some.mean():.1f} ± {some.std(ddof=1):.1f}" for some in last),
            *(f"{p:.3f}" for p in p_values[number]),
            " / ".join(f"{p:.2f}" for p in adjusted[2 * number : 2 * number + 2]),
            f"{each.overlapping} of {POINTS}",
            " / ".join(f"{each.cpu_s[name]:.1f}" for name in sides),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(found: list[Comparison], path: Path) -> None:
    """Write mean curves and bands of both sides, one panel per task."""
    panels = []
    for each in found:
        lines = []
        for side in each.sides:
            low, high = band(each.curves[side])
            middle = each.curves[side].mean(0)
            lines.append(Line(side, each.steps, middle.tolist(), low.tolist(), high.tolist()))
        title = f"{each.algo} on {each.env}, p = {each.p_final:.2f}"
        panels.append(Panel(title, "environment steps", "score", lines))
    save(draw_panels(panels), path)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="JSON Lines file, one run per line")
    parser.add_argument("--sides", nargs=2, choices=SIDES, default=["fused", "torch"])
    parser.add_argument("--seeds", type=int, default=10, help="runs per side and task")
    parser.add_argument(
        "--first-seed", type=int, default=0, help="first seed, to repeat with other seeds"
    )
    parser.add_argument("--games", type=int, default=200, help="new games per score")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor for the steps of every run"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--envs", nargs="+", default=["snake", "cartpole"])
    parser.add_argument("--algos", nargs="+", default=["dqn", "rainbow", "ppo"])
    parser.add_argument("--plot", type=Path, help="chart of the curves to write")
    parser.add_argument(
        "--report", action="store_true", help="print the results in the file without training"
    )
    return parser.parse_args(argv)


def main(argv: list[str]) -> None:
    args = parse(argv)
    tasks = [task for task in STEPS if task[0] in args.envs and task[1] in args.algos]
    planned = list(
        plan(
            tasks,
            first=args.first_seed,
            seeds=args.seeds,
            games=args.games,
            scale=args.scale,
            sides=args.sides,
        )
    )
    if args.report:
        names = {run.name for run in planned}
        runs = [run for run in read(args.results) if run.name in names]
    else:
        runs = study(planned, args.results, args.jobs)
    found = compare(runs)
    print(table(found))
    counts = [f"{min(len(each.curves[name]) for each in found)} of {name}" for name in args.sides]
    print(
        "\nMean and deviation of final scores, each the mean of "
        f"{args.games} new games, over the seeds: {', '.join(counts)}."
    )
    if args.plot:
        draw(found, args.plot)


if __name__ == "__main__":
    main(sys.argv[1:])
