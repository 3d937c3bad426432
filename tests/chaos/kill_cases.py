"""The runs that are killed: every kind of algorithm on every kind of environment, and options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.training.config import Stage, TrainConfig
from tests.training.runs import small_config

CHECKPOINTS = 40
"""Checkpoints of a run, so that many kills fall into a save."""

_WILDFIRE = WildfireConfig(
    height=8, width=8, landscapes=2, n_weather=2, n_fires=4, obs_fires=8, plan_fires=64
)
_ENVS: dict[str, dict[str, Any]] = {
    "snake": {"env": "snake", "engine": "fused"},
    "cage2": {"env": "cage2", "engine": "fused"},
    "wildfire": {"env": "wildfire", "env_config": _WILDFIRE, "engine": "fused"},
    "gym-process": {
        "env": "gym:CartPole-v1",
        "env_config": {"backend": "process", "workers": 2},
        "engine": "torch",
        "num_envs": 8,
    },
}
_STEPS = {
    "snake": {"dqn": 20_000, "per-dqn": 20_000, "rainbow": 12_000, "ppo": 40_000},
    "cage2": {"dqn": 15_000, "per-dqn": 15_000, "rainbow": 10_000, "ppo": 30_000},
    "wildfire": {"dqn": 8_000, "per-dqn": 8_000, "rainbow": 6_000, "ppo": 12_000},
    "gym-process": {"dqn": 6_000, "per-dqn": 6_000, "rainbow": 5_000, "ppo": 12_000},
}
_STAGES = (
    Stage(env={"height": 4, "width": 4}, until="steps", value=10_000),
    Stage(env={"height": 6, "width": 6}, until="score", value=-1.0, window=20),
)
_TEACHER = {"pretrain_from": "dpv", "pretrain_steps": 200}


def _build(run_dir: Path, *, preset: str, env: str, **options: Any) -> TrainConfig:
    values: dict[str, Any] = {"steps": _STEPS[env][preset], **_ENVS[env], **options}
    every = values["steps"] // CHECKPOINTS
    # The last iteration saves once, after the last row of the metrics.
    values |= {"steps": every * CHECKPOINTS + every // 2, "checkpoint_steps": every}
    if env == "wildfire":
        values["algo_config"] = {"body": "mlp", **values.get("algo_config", {})}
    # A row of metrics in every iteration, so that rows do not depend on the clock.
    return small_config(run_dir, preset, log_seconds=1e-6, **values)


CASES: dict[str, Callable[[Path], TrainConfig]] = {
    f"{preset}-{env}": partial(_build, preset=preset, env=env)
    for preset in ("dqn", "per-dqn", "rainbow", "ppo")
    for env in _ENVS
} | {
    "threads": partial(_build, preset="ppo", env="snake", threads=2),
    "overlap": partial(_build, preset="dqn", env="snake", overlap=True),
    "curriculum": partial(_build, preset="ppo", env="snake", curriculum=_STAGES),
    "pretraining": partial(_build, preset="ppo", env="wildfire", algo_config=_TEACHER),
    "reuse": partial(_build, preset="ppo", env="snake", algo_config={"reuse": 2}),
}
