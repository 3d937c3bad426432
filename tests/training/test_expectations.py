"""Warnings before runs that cannot learn; none before those that can."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from briskrl.training.config import TrainConfig
from briskrl.training.expectations import warnings
from briskrl.training.loop import train
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer


def found(algo: str, *, steps: int, num_envs: int = 8, **algo_config: Any) -> list[str]:
    config = complete(
        TrainConfig(
            env="cartpole", algo=algo, steps=steps, num_envs=num_envs, algo_config=algo_config
        )
    )
    with closing(Trainer(config)) as trainer:
        return warnings(trainer.components, config.budget.steps)


DQN = {"learning_starts": 1000, "train_steps_ratio": 0.25, "epsilon_steps": 2000}


def test_a_run_that_ends_before_it_learns() -> None:
    (text,) = found("dqn", steps=1200, **DQN | {"epsilon_steps": 500})
    assert text.startswith("only 50 updates in 1,200 steps: learning starts after 1,000")
    (none,) = found("dqn", steps=900, **DQN | {"epsilon_steps": 500})
    assert none.startswith("no update in 900 steps: learning starts after 1,000")
    assert all(flag in text for flag in ("--learning-starts", "--train-steps-ratio", "--steps"))


def test_exploration_that_outlasts_the_run() -> None:
    (text,) = found("dqn", steps=5000, **DQN | {"epsilon_steps": 50_000})
    assert "over 50,000 steps (--epsilon-steps), but the run has 5,000" in text


def test_a_rollout_longer_than_the_run() -> None:
    (text,) = found("ppo", steps=200, update_steps=32)
    assert text.startswith("no update: a rollout takes 256 steps (--update-steps times --num-envs)")
    (text,) = found("ppo", steps=600, update_steps=32)
    assert text.startswith("only 2 rounds of updates")


@pytest.mark.parametrize(("algo", "settings"), [("dqn", DQN), ("ppo", {"update_steps": 32})])
def test_a_run_that_can_learn_has_no_warning(algo: str, settings: dict[str, Any]) -> None:
    assert found(algo, steps=5000, **settings) == []
    assert warnings(Any, None) == []  # type: ignore[arg-type]


def test_warnings_come_before_training(tmp_path: Path) -> None:
    events: list[str] = []

    class Reporter:
        def on_note(self, text: str) -> None:
            events.append(text)

        def on_warmup(self, seconds: float) -> None:
            events.append("warm-up is over")

        def __getattr__(self, name: str) -> Any:
            return lambda *args: None

    config = TrainConfig(env="cartpole", algo="ppo", num_envs=8, steps=16)
    train(TrainConfig(**_values(config) | {"run_dir": str(tmp_path / "r")}), reporter=Reporter())
    first = next(k for k, text in enumerate(events) if text.startswith("warning: no update"))
    assert first < events.index("warm-up is over")


def _values(config: TrainConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in config.__slots__}
