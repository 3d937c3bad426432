"""Measure entries of the zoo on fresh seeds: the score, and when the bar is first reached.

Every run trains with the settings of its entry, plays 100 games without exploration at the end, and
20 games after every twentieth of its budget. The first of those evaluations that reaches the bar
gives the steps and the CPU seconds to the bar; the time that evaluations take is not counted. No
setting of an entry was chosen on these seeds.

Every finished run is a line of the results file, so a measurement can be stopped and continued:

    python benchmarks/zoo_scores.py lunarlander-v3/ppo pendulum-v1/ppo --bars 200 -200

With `--summary` it prints the `measured` table of every entry instead, for its file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from briskrl import EvaluateEvery, TrainConfig, evaluate, train
from briskrl.envs.gym.compiled.registry import find_compiled
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.training.recorder import RunRecorder
from briskrl.zoo import ZooEntry, find_entry

GAMES, GAMES_BETWEEN, EVALUATIONS = 100, 20, 20


class BarReached:
    """Notes when an evaluation first reaches a score."""

    def __init__(self, bar: float, steps: int) -> None:
        self.steps: int | None = None
        self.cpu_s: float | None = None
        self._bar = bar
        self._evaluate = EvaluateEvery(steps // EVALUATIONS, episodes=GAMES_BETWEEN)
        self._begin = process_time()
        self._evaluating = 0.0

    def begin(self) -> None:
        """Count CPU seconds from now on."""
        self._begin = process_time()

    def __call__(self, recorder: RunRecorder) -> None:
        """Evaluate if it is time."""
        if recorder.trainer.counters.iterations <= 1:
            self.begin()
        now, known = process_time(), len(self._evaluate.results)
        self._evaluate(recorder)
        if self.steps is None and len(self._evaluate.results) > known:
            steps, found = self._evaluate.results[-1]
            if found.mean_score >= self._bar:
                self.steps, self.cpu_s = steps, now - self._begin - self._evaluating
        self._evaluating += process_time() - now

    @property
    def evaluating_s(self) -> float:
        """CPU seconds of the evaluations."""
        return self._evaluating


def in_this_process(env: str) -> dict[str, str]:
    """Settings of a backend that steps here, so that its CPU seconds are all there are."""
    family, _, member = env.partition(":")
    if family != "gym":
        return {}
    found = find_compiled(EnvFactory(member, GymConfig()))
    return {"backend": "sync" if found.version is None else "compiled"}


def measure(entry: ZooEntry, bar: float, seed: int) -> dict[str, Any]:
    """Train one seed of an entry and play with its policy."""
    reached = BarReached(bar, int(entry.run["steps"]))
    with TemporaryDirectory() as folder:
        config = TrainConfig(
            env=entry.env,
            algo=entry.algo,
            env_config=in_this_process(entry.env),
            seed=seed,
            run_dir=f"{folder}/run",
            checkpoint_seconds=0.0,
        )
        result = train(config, hooks=[reached])
        if result.stopped != "finished":
            raise SystemExit(f"The run was stopped: {result.stopped}.")
        played = evaluate(f"{folder}/run", episodes=GAMES, seed=10_000 + seed)
    return {
        "entry": entry.name,
        "seed": seed,
        "bar": bar,
        "score": round(played.mean_score, 2),
        "steps": result.env_steps,
        "cpu_s": round(result.cpu_s - reached.evaluating_s, 2),
        "steps_to_bar": reached.steps,
        "cpu_s_to_bar": None if reached.cpu_s is None else round(reached.cpu_s, 2),
    }


def summary(rows: list[dict[str, Any]]) -> str:
    """The `measured` table of an entry."""
    bar = rows[0]["bar"]
    lines = [
        f"[{rows[0]['entry'].partition('/')[2]}.measured]",
        f"score = {fmean(row['score'] for row in rows):.2f}",
        f"bar = {bar}",
        f"reached = {sum(row['score'] >= bar for row in rows)}",
        f"seeds = {len(rows)}",
        f"games = {GAMES}",
        f"cpu_s = {fmean(row['cpu_s'] for row in rows):.1f}",
    ]
    first = [row for row in rows if row["steps_to_bar"] is not None]
    if first:
        lines += [
            f"steps_to_bar = {median(row['steps_to_bar'] for row in first):.0f}",
            f"cpu_s_to_bar = {median(row['cpu_s_to_bar'] for row in first):.2g}",
        ]
    return "\n".join(lines)


def main() -> int:
    """Measure what is missing, or print what was measured."""
    parser = argparse.ArgumentParser(description="see the file")
    parser.add_argument("entries", nargs="*")
    parser.add_argument("--bars", nargs="*", type=float, default=[])
    parser.add_argument("--seeds", default="100,101,102,103,104")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/zoo_scores.jsonl"))
    parser.add_argument("--summary", action="store_true")
    args = parser.parse_args()
    rows = []
    if args.results.exists():
        rows = [json.loads(line) for line in args.results.read_text().splitlines()]
    if args.summary:
        grouped = defaultdict(list)
        for row in rows:
            grouped[row["entry"]].append(row)
        print("\n\n".join(f"# {name}\n{summary(found)}" for name, found in grouped.items()))
        return 0
    done = {(row["entry"], row["seed"]) for row in rows}
    for name, bar in zip(args.entries, args.bars, strict=True):
        for seed in map(int, args.seeds.split(",")):
            if (name, seed) not in done:
                add(args.results, measure(find_entry(name), bar, seed))
    return 0


def add(path: Path, row: dict[str, Any]) -> None:
    """Append and print a result."""
    line = json.dumps(row)
    with path.open("a") as file:
        print(line, file=file)
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
