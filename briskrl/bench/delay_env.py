"""A Gymnasium environment whose steps take a given time, computing or sleeping."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from briskrl.core.types import Floats

ID = "brisk-delay-v0"
PACKAGE = "briskrl.bench.delay_env"

Info = dict[str, Any]


class DelayEnv(gymnasium.Env[Floats, np.int64]):
    """Noise as observations; episodes last 200 steps.

    Args:
        loops: Iterations of a Python loop per step.
        sleep_s: Seconds of sleep per step.
        slow_share: Fraction of steps, drawn at random, that take `slow_factor` times as long.
        slow_factor: Duration of slow steps relative to the others.
    """

    def __init__(
        self,
        loops: int = 0,
        sleep_s: float = 0.0,
        slow_share: float = 0.0,
        slow_factor: float = 1.0,
    ) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._loops, self._sleep_s = loops, sleep_s
        self._slow_share, self._slow_factor = slow_share, slow_factor

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, Info]:
        """Begin an episode."""
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Floats, float, bool, bool, Info]:
        """Sleep and compute for the configured time."""
        factor = self._slow_factor if self.np_random.random() < self._slow_share else 1.0
        if self._sleep_s:
            time.sleep(self._sleep_s * factor)
        work(round(self._loops * factor))
        return self._observe(), float(action), False, False, {}

    def _observe(self) -> Floats:
        return self.np_random.random(4, np.float32)


def work(loops: int) -> int:
    """Keep the interpreter busy for `loops` iterations."""
    total = 0
    for i in range(loops):
        total += i & 3
    return total


def loops_for(cpu_s: float) -> int:
    """Number of iterations of `work` that take about `cpu_s` CPU seconds on this machine."""
    trial = 200_000
    best = min(_timed(trial) for _ in range(7))
    return round(trial * cpu_s / best)


def _timed(loops: int) -> float:
    begin = time.process_time()
    work(loops)
    return time.process_time() - begin


gymnasium.register(ID, entry_point=f"{PACKAGE}:DelayEnv", max_episode_steps=200)
