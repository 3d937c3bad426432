"""Gymnasium environments with any number of kinds of incident, and one whose task breaks."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from briskrl.envs.workflow.task import ActionTableTask

LENGTH = 10


class Machines(gymnasium.Env[Any, Any]):
    """Each kind has one machine that may fail; action k repairs machine k, the last one waits."""

    def __init__(self, kinds: int) -> None:
        self.kinds = kinds
        self.observation_space = gymnasium.spaces.Box(0, 1, (kinds,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(kinds + 1)
        self.failed = np.zeros(kinds, np.bool_)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.failed = self.np_random.random(self.kinds) < 0.5
        return self.failed.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action < self.kinds:
            self.failed[action] = False
        self.failed |= self.np_random.random(self.kinds) < 0.1
        return self.failed.astype(np.float32), -float(self.failed.sum()), False, False, {}


def _task(kinds: int, open_fn: Any = lambda env: env.unwrapped.failed) -> ActionTableTask:
    names = tuple(f"kind{k}" for k in range(kinds))
    return ActionTableTask(names, [*range(kinds), -1], open_fn)


def two() -> ActionTableTask:
    """Of two kinds."""
    return _task(2)


def eight() -> ActionTableTask:
    """Of eight kinds, too many to list all orders."""
    return _task(8)


def twelve() -> ActionTableTask:
    """Of twelve kinds."""
    return _task(12)


def breaking() -> ActionTableTask:
    """Cannot say what is open."""

    def is_open(env: Any) -> np.ndarray:
        raise RuntimeError("the sensor is gone")

    return _task(2, is_open)


for number in (2, 8, 12):
    gymnasium.register(
        f"brisktest/Machines{number}-v0",
        Machines,
        max_episode_steps=LENGTH,
        kwargs={"kinds": number},
    )
