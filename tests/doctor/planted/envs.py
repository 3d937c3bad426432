"""Slow Gymnasium environments."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

PACKAGE = "tests.doctor.planted.envs"


class SteppingEnv(gymnasium.Env[np.ndarray, int]):
    """A walk whose steps compute for `busy_s`, or sleep, one in ten of them ten times as long."""

    def __init__(self, busy_s: float = 0.0, sleep_s: float = 0.0) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._busy_s, self._sleep_s = busy_s, sleep_s
        self._count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._count = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._count += 1
        end = time.thread_time() + self._busy_s
        while time.thread_time() < end:
            pass
        if self._sleep_s:
            time.sleep(self._sleep_s * (10 if self.np_random.random() < 0.1 else 1))
        return np.full(4, self._count / 100, np.float32), 1.0, self._count >= 50, False, {}


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


gymnasium.register("brisk-stepping-v0", entry_point=SteppingEnv)
gymnasium.register("brisk-loading-v0", entry_point=LoadingEnv)
