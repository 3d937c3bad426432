"""Agents learn: short runs reach scores that a broken learner does not reach."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from briskrl.training.config import TrainConfig
from briskrl.training.evaluate import evaluate
from briskrl.training.loop import train
from briskrl.training.reporter import RunResult
from briskrl.training.resolve import load_config

CONFIGS = Path(__file__).parents[2] / "briskrl" / "zoo" / "recipes"
CARTPOLE = {"env": "gym:CartPole-v1", "env_config": {"backend": "vector"}}


def score_after(tmp_path, preset: str, steps: int, *, games: int = 300, **options) -> float:
    config = TrainConfig(algo=preset, steps=steps, run_dir=str(tmp_path / "run"), **options)
    train(config)
    return evaluate(tmp_path / "run", episodes=games, seed=11).mean_score


def test_an_untrained_agent_scores_close_to_zero(tmp_path):
    assert score_after(tmp_path, "dqn", 256) < 2


def test_dqn_learns_to_find_food(tmp_path):
    assert score_after(tmp_path, "dqn", 150_000) > 12


def test_rainbow_learns_on_flood_features(tmp_path):
    score = score_after(tmp_path, "rainbow", 120_000, env_config={"obs": "flood"})
    assert score > 12


def test_a_cnn_learns_a_small_board_with_masks(tmp_path):
    score = score_after(
        tmp_path,
        "double-dqn",
        60_000,
        num_envs=64,
        env_config={"obs": "grid", "height": 5, "width": 5, "grid_frame": "ego", "masks": True},
        algo_config={"channels": (16,), "net": (64,), "lr": 1e-3, "epsilon_steps": 30_000},
    )
    assert score > 6


@pytest.mark.parametrize("seed", range(4))
def test_an_untrained_policy_drops_the_pole(tmp_path, seed):
    # One step of the 64 environments, which is less than a rollout. By default, a budget as small
    # as this is divided into many rollouts of one environment, and training has an effect.
    score = score_after(tmp_path, "a2c", 64, games=100, seed=seed, num_envs=64, **CARTPOLE)
    assert score < 60


@pytest.mark.parametrize(
    ("preset", "steps", "score"),
    [("ppo", 800_000, 300), ("a2c", 300_000, 90), ("reinforce", 1_000_000, 120)],
)
def test_a_preset_learns_to_hold_the_pole(tmp_path, preset, steps, score):
    assert score_after(tmp_path, preset, steps, games=100, **CARTPOLE) > score


@pytest.mark.parametrize("options", [{}, {"reuse": 3, "epochs": 1}], ids=["fresh", "reused"])
def test_ppo_learns_on_flood_features(tmp_path, options):
    flood = {"obs": "flood"}
    assert score_after(tmp_path, "ppo", 400_000, env_config=flood, algo_config=options) > 20


def test_ppo_learns_pendulum_with_continuous_actions(tmp_path):
    # An untrained policy returns about -1,230, one that holds the pendulum upright -150.
    options = {"gamma": 0.9, "lr": 3e-3, "minibatch_size": 256, "normalize_reward": True}
    score = score_after(
        tmp_path,
        "ppo",
        80_000,
        games=50,
        env="gym:Pendulum-v1",
        num_envs=64,
        env_config={"backend": "sync"},
        algo_config=options,
    )
    assert score > -600


@pytest.mark.parametrize(
    ("env", "least"),
    [
        ("gym:CartPole-v1", 450),
        # 8 and 30 CPU seconds.
        pytest.param("gym:Pendulum-v1", -250, marks=pytest.mark.slow),
        pytest.param("gym:LunarLander-v3", 200, marks=pytest.mark.slow),
    ],
)
def test_ppo_learns_with_its_defaults_in_the_steps_of_the_zoo(tmp_path, env, least):
    run_dir = str(tmp_path / "run")
    train(TrainConfig(env=env, algo="ppo", run_dir=run_dir, env_config={"backend": "sync"}))
    assert evaluate(run_dir, episodes=50, seed=1).mean_score > least


@pytest.mark.slow
def test_dqn_on_features_reaches_17_within_two_cpu_minutes(tmp_path):
    config = TrainConfig(algo="dqn", steps=2_000_000, run_dir=str(tmp_path / "run"))
    result = train(config)
    assert result.cpu_s < 120
    assert evaluate(tmp_path / "run", episodes=1000, seed=1).mean_score >= 17


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["per-dqn", "rainbow"])
def test_flood_features_reach_30(tmp_path, preset):
    score = score_after(tmp_path, preset, 1_500_000, games=1000, env_config={"obs": "flood"})
    assert score >= 30


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_ppo_reaches_475_on_cartpole_within_a_cpu_minute(tmp_path, seed):
    config = TrainConfig(
        env="gym:CartPole-v1",
        algo="ppo",
        seed=seed,
        steps=500_000,
        run_dir=str(tmp_path / "run"),
        zoo=False,
        # The CPU time of worker processes would not be counted.
        env_config={"backend": "sync"},
    )
    assert train(config).cpu_s < 60
    assert evaluate(tmp_path / "run", episodes=100, seed=1).mean_return >= 475


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("preset", "steps"), [("a2c", 2_000_000), ("reinforce", 3_000_000)])
def test_a2c_and_reinforce_reach_195_on_cartpole(tmp_path, preset, steps, seed):
    assert score_after(tmp_path, preset, steps, games=100, seed=seed, **CARTPOLE) >= 195


def train_file(tmp_path: Path, name: str) -> RunResult:
    return train(replace(load_config(CONFIGS / name), run_dir=str(tmp_path / "run")))


@pytest.mark.slow
def test_the_shipped_ppo_config_plays_snake_above_40_within_ten_cpu_minutes(tmp_path):
    assert train_file(tmp_path, "snake_ppo.toml").cpu_s < 600
    assert evaluate(tmp_path / "run", episodes=1000, seed=1).mean_score >= 40


@pytest.mark.slow
def test_the_shipped_planes_config_fills_nine_small_boards_in_ten(tmp_path):
    assert train_file(tmp_path, "snake_fill_6x6.toml").cpu_s < 1200
    assert evaluate(tmp_path / "run", episodes=1000, seed=1).win_rate >= 0.9
