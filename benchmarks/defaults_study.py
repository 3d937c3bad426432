"""The study of the general defaults: which settings of value and policy methods learn everywhere.

Design, written before the first run:

- **Question.** Which one set of defaults per algorithm solves tasks that differ in reward, episode
  length and exploration, without settings for the task?
- **Tasks for tuning.** CartPole (dense reward), Acrobot and MountainCar (a cost per step until a
  goal that random play rarely reaches), Snake on features (what the old defaults were made for).
  LunarLander, Pendulum, MinAtar and FrozenLake take no part in the choice; they confirm it once.
- **Budgets.** 500,000 steps, 1,000,000 for MountainCar, 200,000 for Snake.
- **Seeds.** Candidates are compared on seeds 0 to 2; the chosen one is reported on seeds 100 to
  104, which no candidate has seen. A score is the mean of 100 games without exploration.
- **Choice.** A candidate passes a task if every seed reaches the bar (475, -100, -130, and 12 for
  Snake). The candidate that passes most tasks is taken; ties go to fewer CPU seconds. A change that
  helps one task only belongs into the zoo.
- **Candidates.** `CANDIDATES` below: for the DQN family the settings of RL-Zoo in one, with rounds
  of updates (`update_every`), n-step returns and either ratio; for PQN lambda, number of
  environments, learning rate, epochs and normalized observations, one at a time around the paper's
  settings for CartPole and MinAtar.

Second part, on the DQN family. The first part left DQN unreliable on MountainCar, and seeds 100 to
104 had been looked at, so they were used up.

- **Exploration.** `FAMILY` below: a learning rate that decays, and then normalized observations,
  soft target updates, layer normalization, half the ratio, 1-step returns, and epsilon beside noisy
  layers, alone and together. Candidates were tried one after another on seeds 0 to 2, each after
  seeing the ones before, most with one seed and with the budget in their rows. This suggests
  settings and proves nothing.
- **Report.** What it suggested became the general defaults. `general` trains with them alone on
  seeds 200 to 204, which nobody had seen, with the budgets in `SHORT`: these algorithms, tasks,
  budgets and seeds were fixed before its first run. An algorithm passes if at least 4 of 5 seeds
  reach the bar. PQN did not change; `general-pqn` reports it with the budgets of the first part,
  and `general-policies` does so for PPO and A2C on seeds 100 to 104.
- **Rainbow again.** Rainbow had missed MountainCar with 3 of 5 seeds (`rainbow-noise-per-step` in
  the results). Its acting noise then became constant within a round of steps, and it is reported
  on seeds 210 to 214, which nobody had seen. What was left of double DQN and QR-DQN on Acrobot ran
  beside it, on seeds 211 to 214.

Every finished run is a line of the results file, so the study can be stopped and continued:

    python benchmarks/defaults_study.py family --seeds 0
    python benchmarks/defaults_study.py general general-pqn --seeds 200,201,202,203,204
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from briskrl import TrainConfig, evaluate, train

GAMES = 100
SECOND_PART = ("family", "general")
TASKS: dict[str, tuple[dict[str, Any], int, float]] = {
    "cartpole": ({"env": "gym:CartPole-v1"}, 500_000, 475),
    "acrobot": ({"env": "gym:Acrobot-v1"}, 500_000, -100),
    "mountaincar": ({"env": "gym:MountainCar-v0"}, 1_000_000, -130),
    "snake": ({"env": "snake"}, 200_000, 12),
    "lunarlander": ({"env": "gym:LunarLander-v3"}, 2_000_000, 200),
    "pendulum": ({"env": "gym:Pendulum-v1"}, 1_000_000, -200),
}
"""Settings, budget and bar of each task; no candidate was chosen on the last two."""
SHORT = {"cartpole": 200_000, "acrobot": 200_000, "mountaincar": 400_000, "snake": 200_000}
"""Budgets of the second part, where they differ."""

DQN = {
    "num_envs": 16,
    "gamma": 0.99,
    "n_step": 3,
    "lr": 1e-3,
    "batch_size": 128,
    "buffer_size": 100_000,
    "learning_starts": 1000,
    "train_steps_ratio": 0.25,
    "target_every": 300,
    "epsilon_end": 0.05,
    "epsilon_steps": 0,
    "exploration_fraction": 0.1,
    "update_every": 16,
}
PQN = {"num_envs": 32, "update_steps": 64, "minibatch_size": 128, "q_lambda": 0.95}
POLICY_METHODS = ("ppo", "a2c")
VALUE_METHODS = ("dqn", "double-dqn", "qr-dqn", "c51", "rainbow")

DECAY = {**DQN, "train_steps_ratio": 0.125, "lr_schedule": "linear", "exploration_fraction": 0.2}
SOFT = {**DECAY, "tau": 0.01, "target_every": 1}
CHOSEN = {**SOFT, "layer_norm": True, "train_steps_ratio": 0.0625}
LAYER_NORM: dict[str, Any] = {"layer_norm": True}
NORMALIZED: dict[str, Any] = {"normalize_obs": True}
DOUBLE: dict[str, Any] = {"double": True}
HALF: dict[str, Any] = {"train_steps_ratio": 0.0625}
FAMILY: dict[str, tuple[str, dict[str, Any]]] = {
    "decay": ("dqn", DECAY),
    "decay-double": ("dqn", DECAY | DOUBLE),
    "decay-normalized": ("dqn", DECAY | NORMALIZED),
    "decay-normalized-double": ("dqn", DECAY | NORMALIZED | DOUBLE),
    "decay-layer-norm": ("dqn", DECAY | LAYER_NORM),
    "decay-layer-norm-normalized": ("dqn", DECAY | LAYER_NORM | NORMALIZED),
    "soft": ("dqn", SOFT),
    "soft-double": ("dqn", SOFT | DOUBLE),
    "soft-half": ("dqn", SOFT | HALF),
    "soft-layer-norm": ("dqn", SOFT | LAYER_NORM),
    "soft-layer-norm-normalized": ("dqn", SOFT | LAYER_NORM | NORMALIZED),
    "soft-layer-norm-half": ("dqn", CHOSEN),
    "soft-layer-norm-half-one-step": ("dqn", {**CHOSEN, "n_step": 1}),
    "qr-dqn-soft-layer-norm": ("qr-dqn", SOFT | LAYER_NORM),
    "qr-dqn-soft-layer-norm-half": ("qr-dqn", CHOSEN),
    "c51-soft-layer-norm": ("c51", SOFT | LAYER_NORM),
    "rainbow-no-epsilon": ("rainbow", SOFT | LAYER_NORM | {"epsilon_end": 0.0}),
    "rainbow-epsilon-half": ("rainbow", CHOSEN),
}
"""Algorithm and settings of the second part."""
BEFORE = {"tau": 1.0, "layer_norm": False, "lr_schedule": "constant", "normalize_obs": False}
"""General defaults of DQN when the first part was run."""

CANDIDATES: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "pqn": {
        "paper-minatar": ("pqn", {"num_envs": 128, "update_steps": 32, "q_lambda": 0.65}),
        "paper-cartpole": ("pqn", {**PQN, "epochs": 4, "lr": 2.5e-4}),
        "lambda-95": ("pqn", PQN),
        "lambda-95-normalized": ("pqn", {**PQN, "normalize_obs": True}),
        "lambda-95-fast": ("pqn", {**PQN, "lr": 1e-3}),
        "lambda-95-few-envs": ("pqn", {**PQN, "num_envs": 16, "update_steps": 128}),
        "lambda-90-normalized-128": (
            "pqn",
            {"num_envs": 128, "update_steps": 32, "q_lambda": 0.9, "normalize_obs": True},
        ),
    },
    "dqn": {
        "issue": ("dqn", {**BEFORE, **DQN, "double": True}),
        "single": ("dqn", {**BEFORE, **DQN}),
        "half-ratio": ("dqn", {**BEFORE, **DQN, "double": True, "train_steps_ratio": 0.125}),
    },
    "family": {name: (algo, {**BEFORE, **changes}) for name, (algo, changes) in FAMILY.items()},
    "general": {f"default-{algo}": (algo, {}) for algo in VALUE_METHODS},
    "general-pqn": {"default-pqn": ("pqn", {})},
    "general-policies": {f"default-{algo}": (algo, {}) for algo in POLICY_METHODS},
    "policies": {"ppo": ("ppo", {"num_envs": 128}), "a2c": ("a2c", {"num_envs": 64})},
}
"""Algorithm and settings of each candidate, by group."""


def run_config(
    algo: str, settings: dict[str, Any], task: str, seed: int, folder: str, *, short: bool
) -> TrainConfig:
    """The config of one run; without settings it is that of the pure defaults."""
    env, steps, _ = TASKS[task]
    steps = SHORT.get(task, steps) if short else steps
    rest = {name: value for name, value in settings.items() if name != "num_envs"}
    run = {name: settings[name] for name in settings if name == "num_envs"}
    return TrainConfig(
        algo=algo,
        steps=steps,
        seed=seed,
        engine="fused",
        run_dir=folder,
        algo_config=rest,
        checkpoint_seconds=0.0,
        # Snake's settings are in the zoo; the other tasks are about defaults without it.
        zoo=task == "snake",
        **env,
        **run,
    )


def measure(
    algo: str, settings: dict[str, Any], task: str, seed: int, *, short: bool
) -> dict[str, Any]:
    """Train and evaluate one run."""
    with TemporaryDirectory() as name:
        config = run_config(algo, settings, task, seed, f"{name}/run", short=short)
        result = train(config)
        begin = process_time()
        played = evaluate(f"{name}/run", episodes=GAMES, seed=10_000 + seed)
        return {
            "score": played.mean_score,
            "cpu_s": round(result.cpu_s, 2),
            "eval_cpu_s": round(process_time() - begin, 2),
            "updates": result.updates,
            "machine_fraction": result.machine_fraction,
            "steps": config.steps,
        }


def report(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The scores of the general defaults as a table in Markdown, and how many reach the bar."""
    yield "| task (bar) | preset | steps | seeds | scores by seed | reached | CPU s |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for task, (_, _, bar) in TASKS.items():
        for algo in (*VALUE_METHODS, "pqn", *POLICY_METHODS):
            found = [
                row for row in rows if (row["candidate"], row["task"]) == (f"default-{algo}", task)
            ]
            if not found:
                continue
            found.sort(key=lambda row: row["seed"])
            scores = [row["score"] for row in found]
            reached = sum(score >= bar for score in scores)
            seconds = median(row["cpu_s"] for row in found)
            yield (
                f"| {task} ({bar:g}) | `{algo}` | {found[0]['steps']:,} | "
                f"{_ranges([row['seed'] for row in found])} | "
                f"{', '.join(f'{score:.1f}' for score in scores)} | "
                f"{reached} of {len(scores)} | {seconds:.1f} |"
            )


def _ranges(seeds: list[int]) -> str:
    """Sorted numbers as text: 200-201, 211-214."""
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def main() -> int:
    """Run what is missing, and print every result."""
    parser = argparse.ArgumentParser(description="see the file")
    parser.add_argument("groups", nargs="*", default=list(CANDIDATES))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/defaults_study.jsonl"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--only", default="")
    parser.add_argument("--report", action="store_true", help="print the table of `general`")
    args = parser.parse_args()
    rows = []
    if args.results.exists():
        rows = [json.loads(line) for line in args.results.read_text().splitlines()]
    if args.report:
        print(*report(rows), sep="\n")
        return 0
    done = {(row["candidate"], row["task"], row["seed"]) for row in rows}
    wanted = [
        (seed, task, group, name)
        for seed in map(int, args.seeds.split(","))
        for task in args.tasks.split(",")
        for group in args.groups
        for name in CANDIDATES[group]
        if not args.only or name in args.only.split(",")
    ]
    for seed, task, group, name in wanted:
        if (name, task, seed) in done:
            continue
        algo, settings = CANDIDATES[group][name]
        row = {"candidate": name, "algo": algo, "task": task, "seed": seed}
        row |= measure(algo, settings, task, seed, short=group in SECOND_PART)
        with args.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
