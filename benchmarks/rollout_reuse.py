"""Effect of learning again from past rollouts (`--reuse N`) on samples, time and scores.

For every setting, seed and N a run trains with a constant learning rate until the mean score of
recent training episodes has reached the goals, or the limit of transitions. After a fixed number of
transitions its greedy policy plays new games. PPO with more epochs and no reuse does as many
updates as reuse and is the row to compare with. Prints Markdown; progress goes to standard error.

    python benchmarks/rollout_reuse.py --seeds 3
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from math import inf
from statistics import median
from typing import Any

from briskrl import TrainConfig
from briskrl.bench.stopwatch import Stopwatch
from briskrl.bench.train_loop import present_score
from briskrl.training.recent_episodes import RecentEpisodes
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up

WINDOW = 100
"""Training episodes per mean score."""

VARIANTS = ((0, 4), (1, 4), (3, 4), (0, 8), (0, 16), (3, 1))
"""Reused rollouts and epochs: plain PPO; reuse; more epochs with as many updates as reuse; reuse
with as many updates as plain PPO."""


@dataclass(frozen=True)
class Task:
    """Settings and goals."""

    env: str
    env_config: dict[str, Any]
    algo_config: dict[str, Any]
    num_envs: int
    goals: tuple[float, ...]
    """Mean scores to reach, ascending."""
    greedy_at: int
    """Transitions after which the greedy policy plays."""
    limit: int
    """Maximum number of transitions."""


# Fixed here, so that the study does not depend on defaults.
SCALE = {"lr": 3e-3, "update_steps": 32, "minibatch_size": 4096, "gae_lambda": 0.95}

CARTPOLE: dict[str, Any] = {
    "env": "gym:CartPole-v1",
    "env_config": {"backend": "vector"},
    "goals": (195.0, 475.0),
}
SNAKE: dict[str, Any] = {"env": "snake", "env_config": {"obs": "flood"}, "goals": (20.0, 30.0)}

TASKS = {
    "cartpole-64": Task(
        **CARTPOLE,
        algo_config={**SCALE, "minibatch_size": 256},
        num_envs=64,
        greedy_at=30_000,
        limit=400_000,
    ),
    "cartpole-1024": Task(
        **CARTPOLE, algo_config=SCALE, num_envs=1024, greedy_at=300_000, limit=1_500_000
    ),
    "snake-64": Task(
        **SNAKE,
        algo_config={**SCALE, "minibatch_size": 256},
        num_envs=64,
        greedy_at=100_000,
        limit=1_200_000,
    ),
    "snake-1024": Task(
        **SNAKE, algo_config=SCALE, num_envs=1024, greedy_at=500_000, limit=2_000_000
    ),
}
"""Rollouts of 32 steps: 2,048 transitions from 64 environments, 32,768 from 1,024."""


@dataclass
class Row:
    """One run."""

    seed: int
    steps_to: list[int | None] = field(default_factory=list)
    """Transitions until each goal was reached; None if it was not."""
    cpu_s_to: list[float | None] = field(default_factory=list)
    wall_s_to: list[float | None] = field(default_factory=list)
    updates_per_step: float = 0.0
    steps_per_cpu_s: float = 0.0
    greedy: float = 0.0
    """Mean score in new games after `greedy_at` transitions."""


def measure(task: Task, variant: tuple[int, int], seed: int, games: int) -> Row:
    """Train one run to its goals, or to its limit."""
    reuse, epochs = variant
    # A constant learning rate, so that a run does not depend on its limit.
    fixed = {"lr_schedule": "constant", "normalize_reward": False}
    options = {**fixed, **task.algo_config, "reuse": reuse, "epochs": epochs}
    config = TrainConfig(
        env=task.env,
        algo="ppo",
        seed=seed,
        steps=task.limit,
        num_envs=task.num_envs,
        env_config=task.env_config,
        algo_config=options,
    )
    with closing(Trainer(complete(config))) as trainer:
        warm_up(trainer)
        return follow(trainer, task, seed, games)


def follow(trainer: Trainer, task: Task, seed: int, games: int) -> Row:
    """Train until the goals are reached; evaluation is not timed."""
    row, watch, recent = Row(seed), Stopwatch(), RecentEpisodes(WINDOW)
    counters = trainer.counters
    played = False
    while counters.env_steps < task.limit and not (played and len(row.steps_to) == len(task.goals)):
        with watch:
            ended = trainer.iterate()
        recent.add(ended)
        score = recent.mean_score if recent.total >= WINDOW else None
        while score is not None and len(row.steps_to) < len(task.goals):
            if score < task.goals[len(row.steps_to)]:
                break
            row.steps_to.append(counters.env_steps)
            row.cpu_s_to.append(watch.cpu_s)
            row.wall_s_to.append(watch.wall_s)
        if not played and counters.env_steps >= task.greedy_at:
            row.greedy, played = present_score(trainer, games, seed), True
    row.updates_per_step = counters.updates / counters.env_steps
    row.steps_per_cpu_s = counters.env_steps / watch.cpu_s
    for values in (row.steps_to, row.cpu_s_to, row.wall_s_to):
        values += [None] * (len(task.goals) - len(values))
    return row


def line(variant: tuple[int, int], rows: list[Row]) -> str:
    """One row of the table: medians over the seeds, with ranges."""
    goals = range(len(rows[0].steps_to))
    cells = [
        *map(str, variant),
        f"{median(row.updates_per_step for row in rows) * 1000:.1f}",
        *(spread([row.steps_to[goal] for row in rows], thousands) for goal in goals),
        *(spread([row.cpu_s_to[goal] for row in rows], "{:.2g}".format) for goal in goals),
        spread([row.greedy for row in rows], "{:.1f}".format),
    ]
    return f"| {' | '.join(cells)} |"


def spread(values: Sequence[float | None], show: Callable[[float], str]) -> str:
    """Median and range; a goal that was not reached counts as infinitely late."""
    known = sorted(inf if value is None else value for value in values)
    shown = ["never" if value == inf else show(value) for value in known]
    if len(known) == 1:
        return shown[0]
    # The lower of two middle values: there is no mean of a time and never.
    return f"{shown[(len(known) - 1) // 2]} ({shown[0]} to {shown[-1]})"


def thousands(count: float) -> str:
    return f"{count / 1000:.0f} k"


def table(task: Task, rows: dict[tuple[int, int], list[Row]]) -> str:
    goals = [f"{goal:g}" for goal in task.goals]
    header = [
        "reuse",
        "epochs",
        "updates per 1,000 steps",
        *(f"steps to {goal}" for goal in goals),
        *(f"CPU s to {goal}" for goal in goals),
        f"greedy score at {thousands(task.greedy_at)}",
    ]
    lines = [f"| {' | '.join(header)} |", "|" + " --- |" * len(header)]
    return "\n".join(lines + [line(variant, found) for variant, found in rows.items()])


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="runs per row")
    parser.add_argument("--games", type=int, default=100, help="new games per greedy score")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument(
        "--scale-rewards", action="store_true", help="train with normalize_reward, PPO's default"
    )
    parser.add_argument("--limit", type=int, help="maximum number of transitions per run")
    parser.add_argument("--json", action="store_true", help="print one JSON object with every run")
    return parser.parse_args(argv)


def study(name: str, task: Task, args: argparse.Namespace) -> dict[tuple[int, int], list[Row]]:
    """All runs of a task; variants alternate, so that the load of the machine affects all."""
    rows: dict[tuple[int, int], list[Row]] = {variant: [] for variant in VARIANTS}
    for seed in range(args.seeds):
        for variant in VARIANTS:
            row = measure(task, variant, seed, args.games)
            print(f"{name}, (reuse, epochs) {variant}: {row}", file=sys.stderr, flush=True)
            rows[variant].append(row)
    return rows


def main(argv: list[str]) -> None:
    args = parse(argv)
    tasks = {name: TASKS[name] for name in args.tasks}
    if args.scale_rewards:
        scaled = {"normalize_reward": True}
        tasks = {
            name: replace(task, algo_config=task.algo_config | scaled)
            for name, task in tasks.items()
        }
    if args.limit is not None:
        tasks = {
            name: replace(task, limit=args.limit, greedy_at=min(task.greedy_at, args.limit))
            for name, task in tasks.items()
        }
    found = {name: study(name, task, args) for name, task in tasks.items()}
    if args.json:
        print(json.dumps({name: as_json(tasks[name], rows) for name, rows in found.items()}))
        return
    for name, rows in found.items():
        print(f"**{name}**\n\n{table(tasks[name], rows)}\n")
    print(
        f"Medians and ranges of {args.seeds} run(s) per row; training scores over the last "
        f"{WINDOW} episodes, greedy ones over {args.games} new games. Made by "
        f"`python benchmarks/rollout_reuse.py {shlex.join(argv)}`."
    )


def as_json(task: Task, rows: dict[tuple[int, int], list[Row]]) -> dict[str, Any]:
    return {
        "task": asdict(task),
        "rows": [
            {"reuse": reuse, "epochs": epochs, "runs": [asdict(row) for row in runs]}
            for (reuse, epochs), runs in rows.items()
        ],
    }


if __name__ == "__main__":
    main(sys.argv[1:])
