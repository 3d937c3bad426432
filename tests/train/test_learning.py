"""Agents really learn: short runs reach scores that no broken learner reaches."""

from __future__ import annotations

import pytest

from briskrl.train.config import TrainConfig
from briskrl.train.evaluate import evaluate
from briskrl.train.loop import train


def score_after(tmp_path, preset: str, steps: int, *, games: int = 300, **options) -> float:
    config = TrainConfig(algo=preset, steps=steps, run_dir=str(tmp_path / "run"), **options)
    train(config)
    return evaluate(tmp_path / "run", episodes=games, seed=11).mean_score


def test_an_untrained_agent_scores_next_to_nothing(tmp_path):
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
