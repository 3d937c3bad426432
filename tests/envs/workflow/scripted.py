"""Environments whose incidents, rewards and ends are written down beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from briskrl.core.types import Array, EpisodeStats, StepBuffers
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.envs.workflow.env import WorkflowVecEnv
from briskrl.envs.workflow.task import ActionTableTask


@dataclass
class Script:
    """What happens at T steps of N environments with m categories."""

    opened: np.ndarray
    """(T + 1, N, m) bool: before step t; of a new episode where step t - 1 ended one."""
    reward: np.ndarray
    """(T, N)"""
    terminated: np.ndarray
    truncated: np.ndarray

    @classmethod
    def random(cls, rng: np.random.Generator, steps: int, envs: int, m: int) -> Script:
        quiet = rng.random((steps + 1, envs, 1)) < 0.3
        ends = rng.random((steps, envs))
        return cls(
            opened=(rng.random((steps + 1, envs, m)) < 0.4) & ~quiet,
            reward=rng.normal(size=(steps, envs)).astype(np.float32),
            terminated=ends < 0.06,
            truncated=(ends >= 0.06) & (ends < 0.12),
        )

    @classmethod
    def single(cls, opened: list[set[int]], m: int, *, ends: bool = False) -> Script:
        """One environment with these open categories and rewards of 0."""
        steps = len(opened)
        masks = np.array([[[c in s for c in range(m)]] for s in [*opened, set()]])
        nothing = np.zeros((steps, 1), np.bool_)
        truncated = nothing.copy()
        truncated[-1] = ends
        return cls(masks, np.zeros((steps, 1), np.float32), nothing, truncated)


class ScriptedEnv:
    """Plays a script; observations are the number of the step and of the environment."""

    codec = None
    async_env = None
    notes = ()

    def __init__(self, script: Script) -> None:
        self.script = script
        self.num_envs, self.m = script.opened.shape[1:]
        self.now = 0
        self.returns = np.zeros(self.num_envs)
        self.steps = np.zeros(self.num_envs, np.int32)
        self.finished: list[tuple[int, int, float]] = []
        self.env_spec = EnvSpec(
            obs=ArraySpec.of((2,), np.float32, 0, 1e6),
            action=DiscreteSpec(self.m + 1),
            max_steps=None,
            has_mask=False,
            exact_state=True,
        )

    def start(self, seed: int, out: StepBuffers) -> None:
        self.now = 0
        self.returns[:] = 0
        self.steps[:] = 0
        self.observe(out.obs)

    def observe(self, obs: np.ndarray) -> None:
        obs[:, 0], obs[:, 1] = self.now, np.arange(self.num_envs)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        script, t = self.script, self.now
        out.reward[:] = script.reward[t]
        out.terminated[:], out.truncated[:] = script.terminated[t], script.truncated[t]
        self.now += 1
        self.returns += script.reward[t]
        self.steps += 1
        for env in np.flatnonzero(out.terminated | out.truncated):
            self.finished.append((int(env), int(self.steps[env]), float(self.returns[env])))
            self.returns[env] = self.steps[env] = 0
        self.observe(out.obs)
        self.observe(out.final_obs)

    def drain_stats(self) -> EpisodeStats:
        env, steps, returns = np.array(self.finished).reshape(-1, 3).T
        self.finished = []
        return EpisodeStats(
            env=env.astype(np.int32),
            steps=steps.astype(np.int32),
            returns=returns.astype(np.float32),
            score=returns.astype(np.float32),
            won=np.zeros(len(env), np.bool_),
            cause=np.zeros(len(env), np.uint8),
        )

    def get_state(self) -> Mapping[str, Array]:
        now, steps = np.array(self.now), self.steps.copy()
        return {"now": now, "returns": self.returns.copy(), "steps": steps}

    def set_state(self, state: Mapping[str, Array]) -> None:
        self.now = int(state["now"])
        self.returns[:], self.steps[:] = state["returns"], state["steps"]

    def close(self) -> None:
        pass


def task_of(m: int, **options: Any) -> ActionTableTask:
    """Action c works on category c, and action m on nothing."""

    def opened(env: Any) -> np.ndarray:
        mask: np.ndarray = env.script.opened[env.now]
        return mask

    return ActionTableTask("abcdefghijkl"[:m], [*range(m), -1], opened, **options)


def scripted(script: Script, **settings: Any) -> tuple[WorkflowVecEnv, StepBuffers]:
    """Environments that play a script, started."""
    inner = ScriptedEnv(script)
    settings = {"alignment_lambda": 30.0} | settings
    env = WorkflowVecEnv(inner, task_of(inner.m), WorkflowEnvConfig(**settings))
    out = StepBuffers.allocate(env.env_spec, env.num_envs)
    env.start(0, out)
    return env, out
