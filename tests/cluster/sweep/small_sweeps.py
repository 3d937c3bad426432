"""Small real sweeps for the tests, and an environment that fails on request."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from briskrl.cluster.settings import ExecutorConfig
from briskrl.cluster.sweep.settings import SweepConfig
from briskrl.training.config import TrainConfig

ONE_JOB = ExecutorConfig(jobs=1)
TWO_JOBS = ExecutorConfig(jobs=2)
# Results that do not depend on the machine's load.
EXACT = ("env_steps", "episodes", "updates", "score", "return", "mean_score", "model_sha256")


def tiny_config(**options: Any) -> TrainConfig:
    """A run of some hundred updates; a tenth of a second after the first one of a process."""
    algo = {
        "net": (16,),
        "batch_size": 16,
        "buffer_size": 1024,
        "learning_starts": 200,
        "train_steps_ratio": 0.1,
        **options.pop("algo_config", {}),
    }
    values = {"env": "cartpole", "steps": 3000, "num_envs": 16, "engine": "fused", **options}
    return TrainConfig(algo="dqn", algo_config=algo, **values)


def moody_config(mood: str = "fine", **options: Any) -> TrainConfig:
    """A short run in `Moody`."""
    env_config = {"env_args": {"mood": mood}, "backend": "sync"}
    return tiny_config(
        env=f"gym:{__name__}:Moody-v0", env_config=env_config, steps=600, num_envs=4, **options
    )


def settings(folder: Path, **options: Any) -> SweepConfig:
    """Settings of a sweep in this folder, with short evaluations."""
    return SweepConfig(sweep_dir=str(folder), **{"eval_episodes": 4, **options})


def exact_results(records: Any) -> dict[str, tuple[Any, ...]]:
    """What must be equal in every repetition of a sweep, by the names of runs."""
    return {
        record.name: (record.state, dict(record.values), *_exact(record.result))
        for record in records
    }


def _exact(result: Any) -> list[Any]:
    return [] if result is None else [result[name] for name in EXACT]


class Moody(gym.Env[Any, Any]):
    """Random observations. Its mood decides what happens in step 20 of an episode.

    A mood that is a path raises until there is a file.
    """

    observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, mood: str = "fine") -> None:
        self._mood = mood
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        if self._steps == 20:
            self._misbehave()
        return self._observe(), 1.0, self._steps >= 25, False, {}

    def _misbehave(self) -> None:
        if self._mood == "raises" or ("/" in self._mood and not Path(self._mood).exists()):
            raise RuntimeError("the environment is broken")
        if self._mood == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._mood == "hangs":
            time.sleep(600)

    def _observe(self) -> Any:
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)


gym.register("Moody-v0", entry_point=f"{__name__}:Moody")
