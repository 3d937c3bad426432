"""The README's table of update ratios: what each preset costs and what it buys.

For every preset of --train-steps-ratio and every seed, a run is trained for the same number of
steps and for (about) the same CPU time, and its greedy policy plays fresh games after both. Prints
Markdown; progress goes to standard error.

    python benchmarks/ratio_table.py --steps 1e6 --cpu-seconds 60 --seeds 3
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from briskrl import TrainConfig, evaluate, resume, train
from briskrl.algos.config import RATIO_PRESETS

HEADER = (
    "preset | updates per step | steps per CPU s | updates | CPU s for {steps:,} steps | score | "
    "steps in {cpu_s:g} CPU s | score"
)


@dataclass(frozen=True)
class Row:
    """One preset with one seed."""

    steps_per_cpu_s: float
    updates: int
    cpu_s: float
    score: float
    """Mean over fresh games, after the same steps as every other preset."""
    equal_steps: int
    """Steps trained in the CPU time that every preset gets."""
    equal_score: float


def measure(preset: str, seed: int, args: argparse.Namespace, folder: Path) -> Row:
    """Train and evaluate one preset with one seed, under `folder`."""
    run = folder / f"{preset}-{seed}"
    done = train(config(preset, seed, args, args.steps, run))
    speed = done.env_steps / done.cpu_s
    score = evaluate(run, episodes=args.episodes, seed=seed).mean_score
    affordable = max(args.num_envs, round(speed * args.cpu_seconds))
    if affordable > done.env_steps:
        resume(run, steps=affordable)
    else:
        run = folder / f"{preset}-{seed}-equal"
        train(config(preset, seed, args, affordable, run))
    equal_score = evaluate(run, episodes=args.episodes, seed=seed).mean_score
    return Row(speed, done.updates, done.cpu_s, score, affordable, equal_score)


def config(
    preset: str, seed: int, args: argparse.Namespace, steps: int, run_dir: Path
) -> TrainConfig:
    return TrainConfig(
        algo=args.algo,
        seed=seed,
        steps=steps,
        num_envs=args.num_envs,
        run_dir=str(run_dir),
        # Saving once at the end keeps the disk out of the CPU times.
        checkpoint_seconds=0,
        env_config={"obs": args.obs},
        algo_config={"train_steps_ratio": preset},
    )


def line(preset: str, rows: list[Row]) -> str:
    """One row of the table: means over the seeds, with the range of the scores."""
    cells = [
        f"`{preset}`",
        f"{RATIO_PRESETS[preset]:g}",
        f"{fmean(row.steps_per_cpu_s for row in rows):,.0f}",
        f"{fmean(row.updates for row in rows):,.0f}",
        f"{fmean(row.cpu_s for row in rows):.3g}",
        spread([row.score for row in rows]),
        f"{fmean(row.equal_steps for row in rows):,.0f}",
        spread([row.equal_score for row in rows]),
    ]
    return f"| {' | '.join(cells)} |"


def spread(scores: list[float]) -> str:
    told = f"{fmean(scores):.1f}"
    return told if len(scores) == 1 else f"{told} ({min(scores):.1f} to {max(scores):.1f})"


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    whole = lambda word: int(float(word))  # noqa: E731
    parser.add_argument("--steps", type=whole, default=1_000_000, help="steps of every preset")
    parser.add_argument("--cpu-seconds", type=float, default=60.0, help="CPU time of every preset")
    parser.add_argument("--episodes", type=whole, default=1000, help="fresh games per score")
    parser.add_argument("--seeds", type=whole, default=1, help="runs per preset")
    parser.add_argument("--num-envs", type=whole, default=TrainConfig().num_envs)
    parser.add_argument("--algo", default="dqn")
    parser.add_argument("--obs", default="features")
    parser.add_argument("--presets", nargs="+", choices=RATIO_PRESETS, default=list(RATIO_PRESETS))
    return parser.parse_args(argv)


def main(argv: list[str]) -> None:
    args = parse(argv)
    table = {}
    with TemporaryDirectory(prefix="brisk-bench-") as folder:
        for preset in args.presets:
            for seed in range(args.seeds):
                row = measure(preset, seed, args, Path(folder))
                print(f"{preset}, seed {seed}: {row}", file=sys.stderr, flush=True)
                table.setdefault(preset, []).append(row)
    print(f"| {HEADER.format(steps=args.steps, cpu_s=args.cpu_seconds)} |")
    print("|" + " --- |" * (HEADER.count("|") + 1))
    for preset, rows in table.items():
        print(line(preset, rows))
    print(
        f"\nScores are means over {args.episodes:,} fresh games, greedy, of {args.seeds} run(s) "
        f"per preset. Made by `python benchmarks/ratio_table.py {shlex.join(argv)}`."
    )


if __name__ == "__main__":
    main(sys.argv[1:])
