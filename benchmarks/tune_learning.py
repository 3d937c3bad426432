"""Check that learning does not change within the bounds of `brisk tune`: scores by num_envs.

The number of environments and `overlap` are tuned by default. This study trains runs that differ
only in them, with the same seeds and number of steps, and evaluates their greedy policies along the
way. Every variant is compared with the first by an exact rank test of the final scores and of the
mean scores over the whole curve. Every run is a line of a JSON file; an interrupted study continues
where it stopped. Prints Markdown; progress goes to standard error.

    python benchmarks/tune_learning.py tune_learning.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from engine_study import rank_test

from briskrl import TrainConfig
from briskrl.bench.compare import mean_of
from briskrl.bench.train_loop import Curve, learning_curve

POINTS, GAMES = 8, 200

DQN: dict[str, Any] = {"algo": "dqn", "engine": "fused"}
PPO: dict[str, Any] = {"algo": "ppo", "engine": "fused"}


def rollout(num_envs: int, size: int) -> dict[str, Any]:
    return {"num_envs": num_envs, "algo_config": {"update_steps": size // num_envs}}


VARIANTS: dict[str, tuple[int, list[dict[str, Any]]]] = {
    "dqn on snake": (
        500_000,
        [
            *({"env": "snake", "num_envs": count, **DQN} for count in (64, 8, 256, 1024)),
            {"env": "snake", "num_envs": 64, "overlap": True, **DQN},
            {"env": "snake", "num_envs": 1024, "overlap": True, **DQN},
        ],
    ),
    "ppo on snake, rollouts of 8192": (
        800_000,
        [{"env": "snake", **PPO, **rollout(count, 8192)} for count in (64, 8, 16, 256)],
    ),
}
"""Steps of every run, and its settings; the first variant is the baseline."""


def study(path: Path, seeds: int) -> dict[str, dict[str, list[Curve]]]:
    known = {}
    if path.exists():
        for line in path.read_text().splitlines():
            row = json.loads(line)
            known[row["variant"], row["seed"]] = Curve(**row["curve"])
    found: dict[str, dict[str, list[Curve]]] = {task: {} for task in VARIANTS}
    for seed in range(seeds):
        for task, (steps, variants) in VARIANTS.items():
            for values in variants:
                name = json.dumps(values | {"steps": steps}, sort_keys=True)
                if (name, seed) not in known:
                    config = TrainConfig(seed=seed, steps=steps, **values)
                    curve = learning_curve(config, steps=steps, points=POINTS, games=GAMES)
                    known[name, seed] = curve
                    with path.open("a") as file:
                        row = {"variant": name, "seed": seed, "curve": asdict(curve)}
                        file.write(json.dumps(row) + "\n")
                    print(name, seed, f"{curve.scores[-1]:.1f}", file=sys.stderr, flush=True)
                found[task].setdefault(label(values), []).append(known[name, seed])
    return found


def label(values: dict[str, Any]) -> str:
    text = f"{values['num_envs']} envs"
    steps = values.get("algo_config", {}).get("update_steps")
    if steps is not None:
        text += f" x {steps}"
    return f"{text}, overlap" if values.get("overlap") else text


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="file of JSON lines, one per run")
    parser.add_argument("--seeds", type=int, default=8, help="runs per variant")
    args = parser.parse_args(argv)
    print("| task | variant | final score | p | mean of the curve | p |")
    print("|" + " --- |" * 6)
    for task, variants in study(args.results, args.seeds).items():
        first = next(iter(variants.values()))
        for name, curves in variants.items():
            cells = [task, name]
            for what in (lambda curve: curve.scores[-1], lambda curve: fmean(curve.scores)):
                scores = [what(curve) for curve in curves]
                mean = mean_of(scores)
                assert mean is not None
                half_width = "" if mean.half_width is None else f" ± {mean.half_width:.1f}"
                p_value = rank_test([what(curve) for curve in first], scores)
                cells += [
                    f"{mean.mean:.1f}{half_width}",
                    "-" if curves is first else f"{p_value:.2f}",
                ]
            print(f"| {' | '.join(cells)} |")
    print(
        f"\nMeans over {args.seeds} seeds with 95 % intervals; each score is the mean of {GAMES} "
        "fresh games."
    )


if __name__ == "__main__":
    main(sys.argv[1:])
