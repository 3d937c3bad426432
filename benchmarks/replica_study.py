"""Does a run with two replicas learn what one process learns?

PPO trains on two tasks with its default settings, ten seeds with one process and ten others with
two replicas, at equal total environments and steps. Two figures per run, chosen before the first
run: the mean score of the final greedy policy in new games, and the mean over training of the score
of ended episodes, taken in eight equal parts of the run (how fast it learns). Each is compared by
the exact two-sided rank test of `engine_study.py`, and the four p-values are adjusted by Holm's
rule; below 0.05 the sides differ. Every run is a line of a JSON Lines file, and an interrupted
study continues from it. Prints Markdown; progress goes to standard error.

    python benchmarks/replica_study.py replica_study.jsonl
    python benchmarks/replica_study.py replica_dqn.jsonl --algo dqn
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np
from engine_study import holm, rank_test

from briskrl import TrainConfig, evaluate, train
from briskrl.bench.snake_dqn import snake_run

ENVS = ("snake", "cartpole")
STEPS = {"ppo": 800_000, "dqn": 500_000}
"""Transitions per run, those of the engine study."""
PARTS = 8
"""Parts of a run whose mean scores count equally."""
SEEDS = 10
ALPHA = 0.05


@dataclass
class Run:
    """One training run."""

    env: str
    algo: str
    replicas: int
    seed: int
    final: float = 0.0
    """Mean score of the final greedy policy."""
    parts: list[float] = field(default_factory=list)
    """Mean score of the episodes that ended in each part of the run."""
    cpu_s: float = 0.0

    @property
    def name(self) -> tuple[object, ...]:
        """The settings that identify a run."""
        return (self.env, self.algo, self.replicas, self.seed)


def plan(algo: str, sides: Sequence[int], envs: Sequence[str], seeds: int) -> Iterator[Run]:
    """All runs; no two of them share a seed."""
    for number in range(seeds):
        for env in envs:
            for side, replicas in enumerate(sides):
                yield Run(env, algo, replicas, 100 + side * seeds + number)


def measure(run: Run, games: int) -> Run:
    """Train one run and evaluate its policy."""
    steps = STEPS[run.algo]
    with TemporaryDirectory(prefix="replica-study-") as folder:
        config = TrainConfig(
            env=run.env,
            algo=run.algo,
            seed=run.seed,
            steps=steps,
            engine="fused",
            replicas=run.replicas,
            checkpoint_seconds=0.0,
            run_dir=str(Path(folder, "run")),
            # Value methods have the settings of Snake on both tasks.
            **snake_run(run.algo),
        )
        result = train(config)
        run.cpu_s = result.cpu_s
        run.final = evaluate(result.run_dir, episodes=games, seed=run.seed).mean_score
        run.parts = part_scores(Path(result.run_dir, "episodes.csv"), steps)
    return run


def part_scores(path: Path, steps: int) -> list[float]:
    """The mean score of the episodes in each part of a run."""
    rows = np.loadtxt(path, delimiter=",", skiprows=1, usecols=(0, 4), ndmin=2)
    parts = np.minimum(rows[:, 0] * PARTS // steps, PARTS - 1).astype(int)
    return [float(rows[parts == part, 1].mean()) for part in range(PARTS) if (parts == part).any()]


def study(planned: list[Run], path: Path, games: int) -> list[Run]:
    """Do the planned runs that are not in the file; returns all planned runs."""
    known = {run.name: run for run in read(path)}
    with path.open("a") as file:
        for run in planned:
            if run.name not in known:
                known[run.name] = measure(run, games)
                file.write(json.dumps(asdict(run)) + "\n")
                file.flush()
                print(*run.name, f"{run.final:.1f}", file=sys.stderr, flush=True)
    return [known[run.name] for run in planned]


def read(path: Path) -> list[Run]:
    """The runs in a file."""
    if not path.exists():
        return []
    return [Run(**json.loads(line)) for line in path.read_text().splitlines()]


def table(runs: list[Run], sides: Sequence[int]) -> str:
    """The comparison of both sides as Markdown."""
    rows, p_values = [], []
    for env in dict.fromkeys(run.env for run in runs):
        for what in ("final score", "score in training"):
            values = [
                [
                    run.final if what == "final score" else fmean(run.parts)
                    for run in runs
                    if run.env == env and run.replicas == side
                ]
                for side in sides
            ]
            p_values.append(rank_test(*values))
            means = [f"{np.mean(some):.1f} ± {np.std(some, ddof=1):.1f}" for some in values]
            rows.append([env, what, *means])
    lines = [
        f"| environment | figure | {' | '.join(f'K = {side}' for side in sides)} | p | by Holm |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row, p, adjusted in zip(rows, p_values, holm(p_values), strict=True):
        lines.append(f"| {' | '.join(row)} | {p:.3f} | {adjusted:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="JSON Lines file, one run per line")
    parser.add_argument("--algo", choices=STEPS, default="ppo")
    parser.add_argument("--replicas", nargs=2, type=int, default=[1, 2])
    parser.add_argument("--envs", nargs="+", default=list(ENVS))
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs per side and task")
    parser.add_argument("--games", type=int, default=200, help="new games per score")
    args = parser.parse_args()
    planned = list(plan(args.algo, args.replicas, args.envs, args.seeds))
    runs = study(planned, args.results, args.games)
    print(table(runs, args.replicas))
    print(
        f"\nMean and deviation over {args.seeds} seeds per side; {args.games} new games per final "
        f"score. The sides differ where p by Holm is below {ALPHA}."
    )


if __name__ == "__main__":
    main()
