"""The runs that `brisk bench cluster` trains."""

from __future__ import annotations

from dataclasses import replace

from briskrl.bench import delay_env
from briskrl.envs.gym.config import GymConfig
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete

SLEEP_S = 0.005
"""Time that a step of the slow environment takes."""
DELAY_ENVS = 16
"""Environments of its runs; they sleep one after the other."""
_SMALL = {"net": (16,), "update_steps": 8, "minibatch_size": 64, "epochs": 1}


def delay_run(seconds: float) -> TrainConfig:
    """A run that sleeps for about this time, and computes next to nothing."""
    env = GymConfig(backend="sync", packages=(delay_env.PACKAGE,), env_args={"sleep_s": SLEEP_S})
    return _run(
        f"gym:{delay_env.ID}", steps=seconds / SLEEP_S, num_envs=DELAY_ENVS, env=env, algo=_SMALL
    )


def compute_run(env: str, steps: float) -> TrainConfig:
    """A run of PPO with its default settings that keeps one thread busy."""
    return _run(env, steps=steps)


def tiny_run() -> TrainConfig:
    """A run of one update, whose cost is that of beginning and ending a job."""
    return _run("cartpole", steps=1, num_envs=DELAY_ENVS, algo=_SMALL)


def _run(
    name: str,
    *,
    steps: float,
    num_envs: int | None = None,
    env: object = None,
    algo: dict[str, object] | None = None,
) -> TrainConfig:
    config = TrainConfig(
        env=name,
        algo="ppo",
        steps=max(1, round(steps)),
        engine="fused",
        checkpoint_seconds=0.0,
        env_config=env,
        algo_config=algo,
    )
    return complete(replace(config, num_envs=256 if num_envs is None else num_envs))
