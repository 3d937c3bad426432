"""The general defaults learn: without the zoo, without a setting for the task.

The fast tests fail when a default breaks: fixed seeds, short budgets and wide margins. The slow
ones are the promise of `docs/algorithms/defaults.md`; all of them:

    pytest -m slow tests/training/test_general_defaults.py
"""

from __future__ import annotations

import pytest

from briskrl.training.config import TrainConfig
from briskrl.training.evaluate import evaluate
from briskrl.training.loop import train

TASKS = {"cartpole": "gym:CartPole-v1", "acrobot": "gym:Acrobot-v1", "car": "gym:MountainCar-v0"}


def score(tmp_path, algo: str, task: str, steps: int, seed: int = 0, games: int = 50) -> float:
    run = tmp_path / f"run{seed}"
    config = TrainConfig(
        env=TASKS[task],
        algo=algo,
        steps=steps,
        seed=seed,
        engine="fused",
        checkpoint_seconds=0.0,
        run_dir=str(run),
        zoo=False,
    )
    train(config)
    return evaluate(run, episodes=games, seed=10_000 + seed).mean_score


@pytest.mark.parametrize("algo", ["dqn", "c51", "pqn"])
def test_the_pole_stays_up_for_long(tmp_path, algo):
    # Random play: 22, the old defaults of dqn at ten times the steps: 104.
    assert score(tmp_path, algo, "cartpole", 50_000) > 150


def test_dqn_finds_out_how_to_swing_up(tmp_path):
    # Random play and the old defaults: -500.
    assert score(tmp_path, "dqn", "acrobot", 60_000) > -200


VALUE_METHODS = ("dqn", "double-dqn", "qr-dqn", "c51", "rainbow")
PROMISES = [
    *(("cartpole", algo, 200_000, 475) for algo in (*VALUE_METHODS, "pqn")),
    *(("acrobot", algo, 200_000, -100) for algo in VALUE_METHODS),
    ("acrobot", "pqn", 500_000, -100),
    *(("car", algo, 400_000, -130) for algo in ("dqn", "rainbow")),
    ("car", "pqn", 1_000_000, -130),
]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "algo", "steps", "bar"), PROMISES)
def test_four_of_five_seeds_solve_the_task(tmp_path, task, algo, steps, bar):
    scores = [score(tmp_path, algo, task, steps, seed, games=100) for seed in range(500, 505)]
    assert sum(found >= bar for found in scores) >= 4, scores
