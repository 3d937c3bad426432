"""A policy trained on the compiled CartPole also plays Gymnasium's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from briskrl.envs.gym.config import GymConfig
from briskrl.training.config import TrainConfig
from briskrl.training.evaluate import evaluate_agent, load_policy
from briskrl.training.loop import train


def test_a_policy_trained_here_plays_gymnasiums_cartpole(tmp_path: Path) -> None:
    train(TrainConfig(env="cartpole", algo="ppo", steps=1_000_000, run_dir=str(tmp_path / "run")))
    ours = load_policy(tmp_path / "run")
    theirs = replace(ours, env="gym:CartPole-v1", env_config=GymConfig(backend="sync"))
    for agent in (ours, theirs):
        played = evaluate_agent(agent, episodes=100, seed=3)
        assert played.mean_return > 475
        assert played.mean_score == played.mean_return == played.mean_steps
