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

Every finished run is a line of the results file, so the study can be stopped and continued:

    python benchmarks/defaults_study.py --results benchmarks/defaults_study.jsonl pqn dqn
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from briskrl import TrainConfig, evaluate, train

GAMES = 100
TASKS: dict[str, tuple[dict[str, Any], int, float]] = {
    "cartpole": ({"env": "gym:CartPole-v1"}, 500_000, 475),
    "acrobot": ({"env": "gym:Acrobot-v1"}, 500_000, -100),
    "mountaincar": ({"env": "gym:MountainCar-v0"}, 1_000_000, -130),
    "snake": ({"env": "snake"}, 200_000, 12),
}
"""Settings, budget and bar of each task."""

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
WIDE = {"v_min": -100.0, "v_max": 100.0}

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
        "issue": ("dqn", {**DQN, "double": True}),
        "single": ("dqn", DQN),
        "half-ratio": ("dqn", {**DQN, "double": True, "train_steps_ratio": 0.125}),
    },
    "family": {
        "qr-dqn": ("qr-dqn", DQN),
        "c51": ("c51", {**DQN, **WIDE}),
        "rainbow": ("rainbow", {**DQN, **WIDE, "epsilon_end": 0.0, "target_noise": False}),
    },
    "policies": {"ppo": ("ppo", {}), "a2c": ("a2c", {"num_envs": 64})},
}
"""Algorithm and settings of each candidate, by group."""


def run_config(algo: str, settings: dict[str, Any], task: str, seed: int, folder: str) -> Any:
    """The config of one run."""
    env, steps, _ = TASKS[task]
    rest = {name: value for name, value in settings.items() if name != "num_envs"}
    run = {name: settings[name] for name in settings if name == "num_envs"}
    if algo == "ppo":
        run = {"num_envs": 128}
    return TrainConfig(
        algo=algo,
        steps=steps,
        seed=seed,
        engine="fused",
        run_dir=folder,
        algo_config=rest,
        checkpoint_seconds=0.0,
        **env,
        **run,
    )


def measure(algo: str, settings: dict[str, Any], task: str, seed: int) -> dict[str, Any]:
    """Train and evaluate one run."""
    with TemporaryDirectory() as name:
        result = train(run_config(algo, settings, task, seed, f"{name}/run"))
        begin = process_time()
        played = evaluate(f"{name}/run", episodes=GAMES, seed=10_000 + seed)
        return {
            "score": played.mean_score,
            "cpu_s": round(result.cpu_s, 2),
            "eval_cpu_s": round(process_time() - begin, 2),
            "updates": result.updates,
            "machine_fraction": result.machine_fraction,
        }


def main() -> int:
    """Run what is missing, and print every result."""
    parser = argparse.ArgumentParser(description="see the file")
    parser.add_argument("groups", nargs="*", default=list(CANDIDATES))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/defaults_study.jsonl"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    done = set()
    if args.results.exists():
        rows = [json.loads(line) for line in args.results.read_text().splitlines()]
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
        row |= measure(algo, settings, task, seed)
        with args.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
