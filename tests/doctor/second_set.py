"""A second set of planted faults, in other loops, by other mechanisms, set without the doctor.

What was settled before the doctor saw any of these loops, and how:

- each fault makes its loop at least 1.3 times as slow as the loop without it, by a stopwatch and in
  turns, on the two-core machine where this was written; for a history that grows, over its first
  ten seconds;
- two kinds cannot: the leak keeps at least 4.5 MB per second, 16 GB within an hour; the slow start
  takes at least 1.5 seconds that the other loop does not;
- which names are right follows from what docs/doctor.md says that they mean.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from briskrl.algos.config import DQNConfig, OnPolicyConfig
from briskrl.doctor import diagnose
from briskrl.doctor.examine import examine
from briskrl.doctor.report import Report
from briskrl.doctor.subject import TrainSubject
from briskrl.envs.gym.config import GymConfig
from briskrl.train.config import TrainConfig
from tests.doctor.cartpole_dqn import CartPoleDQN
from tests.doctor.numpy_a2c import NumpyA2C
from tests.doctor.plants import torch_threads

PACKAGE = "tests.doctor.second_set"
Hand = CartPoleDQN | NumpyA2C


class LoadingEnv(gymnasium.Env[np.ndarray, int]):
    """A walk that waits 1 ms per step for its simulator, and 40 ms for a level to load."""

    def __init__(self, load_s: float = 0.04) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (6,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._load_s = load_s
        self._left = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        time.sleep(self._load_s)
        self._left = int(self.np_random.integers(20, 60))
        return np.zeros(6, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        time.sleep(1e-3)
        self._left -= 1
        obs = np.full(6, self._left / 60, np.float32)
        return obs, float(action == 1), self._left <= 0, False, {}


gymnasium.register("brisk-loading-v0", entry_point=LoadingEnv)


@contextmanager
def errors_to_file(folder: Path) -> Iterator[None]:
    """A file for standard error, where loggers write."""
    before = sys.stderr
    with (folder / "errors").open("w") as sys.stderr:
        try:
            yield
        finally:
            sys.stderr = before


def of_hand(make: Callable[[Path], Hand], folder: Path, seconds: float) -> Report:
    """The report on a hand-written loop."""
    with closing(make(folder)) as loop:
        return diagnose(
            loop.iterate,
            loop.timer,
            num_envs=loop.num_envs,
            episodes=lambda: loop.episodes,
            obs_size=loop.obs_size,
            seconds=seconds,
        )


def uneven() -> TrainConfig:
    """DQN on environments that load levels, one worker each and all in step."""
    settings = GymConfig(backend="process", workers=12, packages=(PACKAGE,))
    learning = DQNConfig(batch_size=64, buffer_size=8192, learning_starts=128)
    return TrainConfig(
        env="gym:brisk-loading-v0",
        algo="double-dqn",
        num_envs=12,
        env_config=settings,
        algo_config=learning,
    )


def tiny() -> TrainConfig:
    """PPO on the compiled CartPole with 256 updates per pass over a rollout of 2048 steps."""
    learning = OnPolicyConfig(minibatch_size=8, net=(256, 256))
    return TrainConfig(env="cartpole", algo="ppo", num_envs=64, algo_config=learning)


def tuned() -> TrainConfig:
    """PPO on the compiled CartPole as the presets have it."""
    return TrainConfig(env="cartpole", algo="ppo")


def hand(kind: type[Hand], *args: Any) -> Callable[[Path, float], Report]:
    return lambda folder, seconds: of_hand(lambda where: kind(where, *args), folder, seconds)


def training(config: TrainConfig) -> Callable[[Path, float], Report]:
    return lambda folder, seconds: examine(TrainSubject(config), budget_s=seconds)


def logged(folder: Path, seconds: float) -> Report:
    with errors_to_file(folder):
        return hand(NumpyA2C, "lines")(folder, seconds)


def threaded(folder: Path, seconds: float) -> Report:
    with torch_threads(8):
        return hand(NumpyA2C, "", 256)(folder, seconds)


SECOND: dict[str, tuple[tuple[str, ...], Callable[[Path, float], Report]]] = {
    "push into a deque": (("store",), hand(CartPoleDQN, "push")),
    "updates by a while loop": (("updates",), hand(CartPoleDQN, "updates")),
    "rays in plain Python": (("env",), hand(CartPoleDQN, "lidar")),
    "levels that load": (("uneven-env",), training(uneven())),
    "results synced per episode": (("write-per-episode",), hand(NumpyA2C, "results")),
    "a log line per step": (("write-per-step", "console"), logged),
    "8 threads": (("threads",), threaded),
    "graphs kept": (("leak",), hand(NumpyA2C, "graphs")),
    "episodes scanned": (("growth",), hand(CartPoleDQN, "history")),
    "compiled at first call": (("cold-start",), hand(NumpyA2C, "compile")),
    "minibatches of 8": (("small-batch",), training(tiny())),
    "moments stuck": (("denormals",), hand(NumpyA2C, "moments")),
}
"""Twelve faults: the names that are right, and the examination."""

HEALTHY: dict[str, tuple[tuple[str, ...], Callable[[Path, float], Report]]] = {
    "DQN by hand": (("env",), hand(CartPoleDQN)),
    "actor-critic by hand": ((), hand(NumpyA2C)),
    "PPO of ours": ((), training(tuned())),
}
"""Loops without a fault: what may be found all the same. Gymnasium's environments take a large part
of the first."""
