"""CPU seconds until a task is solved: briskrl against Stable-Baselines3 with RL-Zoo's settings.

Every `points` transitions the greedy policy plays `GAMES` games, outside the measured time;
training ends at the first mean at or above the bar, or with the budget. Time is CPU time of
training alone, one thread on both sides, without imports and without the compilation of our
kernels, which is cached on disk. Settings of ours: those that `brisk train` takes by itself, the
zoo's included. Settings of theirs: RL-Zoo's files of April 2026 (commit 22e3ff2).

Every run is a line of the results file; runs that are in it are not repeated:

    python benchmarks/threshold.py --seeds 400,401,402
    python benchmarks/threshold.py --report
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from briskrl.bench.stopwatch import Stopwatch

GAMES = 20


class Task(NamedTuple):
    """A task and how often its score is looked at."""

    env: str
    bar: float
    points: int
    """Transitions between two looks."""
    budget: int
    """Most transitions of a run; ours are planned for the budget of the zoo instead."""


TASKS = {
    "cartpole": Task("CartPole-v1", 475.0, 2_500, 200_000),
    "acrobot": Task("Acrobot-v1", -100.0, 5_000, 300_000),
}
SIDES = ("briskrl-pqn", "briskrl-dqn", "briskrl-ppo", "sb3-ppo", "sb3-dqn")

SB3: dict[tuple[str, str], dict[str, Any]] = {
    ("cartpole", "dqn"): {
        "learning_rate": 2.3e-3,
        "batch_size": 64,
        "buffer_size": 100_000,
        "learning_starts": 1000,
        "gamma": 0.99,
        "target_update_interval": 10,
        "train_freq": 256,
        "gradient_steps": 128,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
        "policy_kwargs": {"net_arch": [256, 256]},
        "total": 50_000,
    },
    ("cartpole", "ppo"): {
        "n_envs": 8,
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "learning_rate": lambda left: 1e-3 * left,
        "clip_range": lambda left: 0.2 * left,
        "total": 100_000,
    },
    ("acrobot", "dqn"): {
        "learning_rate": 6.3e-4,
        "batch_size": 128,
        "buffer_size": 50_000,
        "learning_starts": 0,
        "gamma": 0.99,
        "target_update_interval": 250,
        "train_freq": 4,
        "gradient_steps": -1,
        "exploration_fraction": 0.12,
        "exploration_final_eps": 0.1,
        "policy_kwargs": {"net_arch": [256, 256]},
        "total": 100_000,
    },
    ("acrobot", "ppo"): {
        "n_envs": 16,
        "normalize": True,
        "n_steps": 256,
        "gae_lambda": 0.94,
        "gamma": 0.99,
        "n_epochs": 4,
        "ent_coef": 0.0,
        "total": 1_000_000,
    },
}
"""Settings of RL-Zoo; `total` is the budget that its schedules are made for."""


class Solved(NamedTuple):
    """What a run needed."""

    solved: bool
    steps: int
    cpu_s: float
    score: float


def run_briskrl(task: Task, algo: str, seed: int) -> Solved:
    """Train ours."""
    from briskrl.bench.train_loop import present_score
    from briskrl.training.config import TrainConfig
    from briskrl.training.resolve import complete
    from briskrl.training.trainer import Trainer
    from briskrl.training.warmup import warm_up

    config = TrainConfig(env=f"gym:{task.env}", algo=algo, seed=seed, engine="fused", threads=1)
    watch, score = Stopwatch(), -np.inf
    with closing(Trainer(complete(config))) as trainer:
        warm_up(trainer)
        counters = trainer.counters
        while not trainer.is_done:
            goal = counters.env_steps + task.points
            with watch:
                while counters.env_steps < goal and not trainer.is_done:
                    trainer.iterate()
            score = present_score(trainer, GAMES, seed=1000 * seed + counters.env_steps)
            if score >= task.bar:
                break
        return Solved(score >= task.bar, counters.env_steps, watch.cpu_s, score)


def run_sb3(task: Task, algo: str, seed: int) -> Solved:
    """Train theirs."""
    import torch
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    settings = dict(SB3[task.env.split("-")[0].lower(), algo])
    envs, total = settings.pop("n_envs", 1), settings.pop("total")
    env: Any = make_vec_env(task.env, n_envs=envs, seed=seed)
    if settings.pop("normalize", False):
        env = VecNormalize(env, gamma=settings["gamma"])
    build = DQN if algo == "dqn" else PPO
    model = build("MlpPolicy", env, seed=seed, device="cpu", **settings)
    normalize = env.normalize_obs if isinstance(env, VecNormalize) else None
    look = _Look(task, model, normalize, seed)
    model.learn(min(total, task.budget), callback=look.callback())
    look.end()
    return Solved(look.score >= task.bar, model.num_timesteps, look.watch.cpu_s, look.score)


class _Look:
    """Plays games now and then while Stable-Baselines3 trains, outside the measured time."""

    def __init__(
        self, task: Task, model: Any, normalize: Callable[[Any], Any] | None, seed: int
    ) -> None:
        self.watch, self.score = Stopwatch(), -np.inf
        self._task, self._model, self._normalize, self._seed = task, model, normalize, seed
        self._next = task.points
        self._running = False

    def callback(self) -> Callable[[Any, Any], bool]:
        """A callback of `learn`; the time begins with its first call."""

        def step(_locals: Any, _globals: Any) -> bool:
            if not self._running:
                self.watch.__enter__()
                self._running = True
            if self._model.num_timesteps < self._next:
                return True
            self.end()
            self._next += self._task.points
            self.score = self._play()
            return self.score < self._task.bar

        return step

    def end(self) -> None:
        """Stop the time."""
        if self._running:
            self.watch.__exit__(None, None, None)
            self._running = False

    def _play(self) -> float:
        """The mean return of the first game of `GAMES` environments, played greedily."""
        import gymnasium

        env = gymnasium.make_vec(self._task.env, num_envs=GAMES, vectorization_mode="sync")
        obs, _ = env.reset(seed=1000 * self._seed + self._model.num_timesteps)
        returns, playing = np.zeros(GAMES), np.ones(GAMES, bool)
        while playing.any():
            seen = obs if self._normalize is None else self._normalize(obs)
            action, _ = self._model.predict(seen, deterministic=True)
            obs, reward, terminated, truncated, _ = env.step(action)
            returns += reward * playing
            playing &= ~(terminated | truncated)
        env.close()
        return float(returns.mean())


def read(path: Path) -> list[dict[str, Any]]:
    """The finished runs."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A line per task and side: medians over the seeds, and against the fastest of ours."""
    for task in TASKS:
        sides = {
            side: [row for row in rows if (row["task"], row["side"]) == (task, side)]
            for side in SIDES
        }
        times = {
            side: median(row["cpu_s"] for row in found) for side, found in sides.items() if found
        }
        ours = [seconds for side, seconds in times.items() if side.startswith("briskrl")]
        for side, seconds in times.items():
            found = sides[side]
            solved = sum(row["solved"] for row in found)
            steps = median(row["steps"] for row in found)
            ratio = f", {seconds / min(ours):.1f}x the fastest of ours" if ours else ""
            yield (
                f"{task} {side}: solved {solved} of {len(found)}, median {steps:,.0f} steps, "
                f"{seconds:.2f} CPU s{ratio}"
            )


def main() -> int:
    """Run what is missing, and print medians."""
    parser = argparse.ArgumentParser(description="see the file")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/threshold.jsonl"))
    parser.add_argument("--seeds", default="400,401,402")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--report", action="store_true", help="print what the file holds")
    args = parser.parse_args()
    done = {(row["task"], row["side"], row["seed"]) for row in read(args.results)}
    wanted = [
        (name, side, seed)
        for seed in map(int, args.seeds.split(","))
        for name in args.tasks.split(",")
        for side in args.sides.split(",")
    ]
    for name, side, seed in [] if args.report else wanted:
        if (name, side, seed) in done:
            continue
        library, algo = side.split("-")
        run = run_briskrl if library == "briskrl" else run_sb3
        row = {"task": name, "side": side, "seed": seed, **run(TASKS[name], algo, seed)._asdict()}
        with args.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
    print(*report(read(args.results)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
