"""A Gymnasium environment with incidents, its tasks, and the same rules spelled out."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from briskrl.envs.workflow.task import ActionTableTask, EventTask, SingleEnv

CATEGORIES = ("dmz", "office", "plant")
HOSTS = 6
"""Two of each category; the observation shows only half of the infections."""


class Subnets(gymnasium.Env[Any, Any]):
    """Hosts get infected; action h cleans host h, the last action waits."""

    observation_space = gymnasium.spaces.Box(0, 1, (HOSTS,), np.float32)
    action_space = gymnasium.spaces.Discrete(HOSTS + 1)

    def __init__(self, rate: float = 0.3) -> None:
        self.rate = rate
        self.infected = [False] * HOSTS
        self.cleaned = -1
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.infected = [bool(x) for x in self.np_random.random(HOSTS) < self.rate]
        self.cleaned, self.steps = -1, 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action = int(action)
        self.cleaned = -1
        if action < HOSTS:
            self.cleaned = action // 2 if self.infected[action] else -1
            self.infected[action] = False
        new = self.np_random.random(HOSTS) < self.rate / 4
        self.infected = [a or bool(b) for a, b in zip(self.infected, new, strict=True)]
        self.steps += 1
        ended = bool(self.np_random.random() < 0.04)
        return self.observe(), -float(sum(self.infected)), ended, False, {}

    def observe(self) -> Any:
        seen = self.np_random.random(HOSTS) < 0.5
        return (seen & np.array(self.infected)).astype(np.float32)


def is_open(env: Any) -> list[bool]:
    """By category, from the true state."""
    hosts = env.unwrapped.infected
    return [any(hosts[2 * c : 2 * c + 2]) for c in range(3)]


def by_action() -> ActionTableTask:
    return ActionTableTask(CATEGORIES, [0, 0, 1, 1, 2, 2, -1], is_open, {"plant-first": (2, 1, 0)})


def by_event() -> EventTask:
    """Only cleaning an infected host counts."""
    return EventTask(CATEGORIES, lambda env: env.unwrapped.cleaned, is_open)


class OwnTask:
    """Written without a base class; counts how often it is bound in this process."""

    categories = CATEGORIES
    named = {"dmz-first": (0, 1, 2)}  # noqa: RUF012

    def bind(self, venv: SingleEnv) -> None:
        self.env = venv.env

    def open_mask(self) -> np.ndarray:
        return np.array([is_open(self.env)])

    def addressed(self, actions: np.ndarray) -> np.ndarray:
        action = int(actions[0])
        return np.array([action // 2 if action < HOSTS else -1], np.int8)


def broken() -> EventTask:
    """Reports a category that does not exist."""
    return EventTask(CATEGORIES, lambda env: 3, is_open)


NOT_CALLABLE = by_action()


def not_a_task() -> int:
    return 7


gymnasium.register("brisktest/Subnets-v0", Subnets, max_episode_steps=25)
