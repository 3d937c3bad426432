"""The settings of DQN that benchmarks document: those of Snake in the zoo, not general defaults."""

from __future__ import annotations

from typing import Any

from briskrl.algos.dqn.config import DQNConfig
from briskrl.zoo import zoo_entry


def snake_dqn(**changes: Any) -> DQNConfig:
    """DQN as it is trained on Snake, with some settings changed."""
    return DQNConfig(**{**snake_run("dqn")["algo_config"], **changes})


def snake_run(algo: str) -> dict[str, Any]:
    """Fields of TrainConfig with which a value method is trained on Snake; none for others."""
    entry = zoo_entry("snake", algo)
    return {} if entry is None else {**entry.run, "algo_config": entry.algo_config}
