"""Configs for short measurements of training in the state that most of a run has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from briskrl.algos.dqn.config import DQNConfig
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete

ENDLESS = 10**12
"""Steps of a run without end: schedules stay at their initial values."""


def steady_config(config: TrainConfig) -> TrainConfig:
    """The config in the state of most of its run: learning at once, with final exploration."""
    algo: Any = config.algo_config
    if isinstance(algo, DQNConfig):
        algo = replace(algo, learning_starts=0, epsilon_start=algo.epsilon_end)
    return complete(
        replace(
            config,
            steps=ENDLESS,
            episodes=None,
            max_episodes=None,
            run_dir=None,
            warmup=True,
            algo_config=algo,
        )
    )
