"""Environments that sleep, raise, hang, die or return invalid values on request.

Workers import this module by name, so it registers its ids at import.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

PACKAGE = "tests.envs.gym.slow_envs"
ID = "brisk-faulty-v0"
WALK_ID = "brisk-walk-v0"


class WalkEnv(gymnasium.Env[np.ndarray, Any]):
    """Counts its steps and actions and draws random numbers, so that lost or swapped steps show.

    Observes (steps in the episode, episodes so far, sum of actions, a draw).
    """

    def __init__(self, length: int = 12, sleep_s: float = 0.0, slow_share: float = 0.0) -> None:
        self.observation_space = spaces.Box(-1e9, 1e9, (4,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._length, self._sleep_s, self._slow_share = length, sleep_s, slow_share
        self._count = self._episodes = self._sum = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._episodes = 1 if seed is not None else self._episodes + 1
        self._count = self._sum = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self._sleep_s:
            slow = self.np_random.random() < self._slow_share
            time.sleep(self._sleep_s * (10 if slow else 1))
        self._count += 1
        self._sum += int(action)
        ended = self._count >= self._length + self._episodes % 3
        return self._observe(), float(action) - 0.5, ended, False, {}

    def _observe(self) -> np.ndarray:
        draw = self.np_random.integers(1000)
        return np.array([self._count, self._episodes, self._sum, draw], np.float32)


class FaultyEnv(WalkEnv):
    """A walk in which one env of the batch fails once, at its `at`-th step overall.

    The seed of the first reset selects the env. A file `mark` records that it has failed, so that
    its replacement does not fail again. With an empty `mark` it fails every time.
    """

    def __init__(self, fault: str = "", seed: int = 0, at: int = 5, mark: str = "") -> None:
        super().__init__(length=12)
        if fault == "make":
            raise RuntimeError("no such world")
        self._fault, self._seed, self._at, self._mark = fault, seed, at, mark
        self._mine = False
        self._total = 0
        self._broken_reset = fault == "reset"

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        if seed is not None:
            self._mine = seed == self._seed or not self._mark
        if self._broken_reset:
            raise RuntimeError("cannot begin")
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        obs, reward, ended, cut, info = super().step(action)
        self._total += 1
        if self._mine and self._fault and self._total == self._at and self._first_time():
            return self._fail(obs, reward)
        return obs, reward, ended, cut, info

    def close(self) -> None:
        if self._fault == "close":
            time.sleep(1000)

    def _first_time(self) -> bool:
        if not self._mark:
            return True
        if Path(self._mark).exists():
            return False
        Path(self._mark).touch()
        return True

    def _fail(self, obs: np.ndarray, reward: float) -> tuple[Any, float, bool, bool, dict]:
        if self._fault == "raise":
            raise ZeroDivisionError("the floor is gone")
        if self._fault == "exit":
            os._exit(3)
        if self._fault == "sys-exit":
            sys.exit(4)
        if self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._fault == "hang":
            time.sleep(1000)
        if self._fault == "spin":
            while True:
                pass
        results: dict[str, tuple[Any, float]] = {
            "nan-obs": (np.full(4, np.nan, np.float32), reward),
            "inf-obs": (np.array([0, 0, np.inf, 0], np.float32), reward),
            "nan-reward": (obs, float("nan")),
            "shape": (np.zeros(5, np.float32), reward),
        }
        return (*results[self._fault], False, False, {})


gymnasium.register(WALK_ID, entry_point=f"{PACKAGE}:WalkEnv")
gymnasium.register(ID, entry_point=f"{PACKAGE}:FaultyEnv")
