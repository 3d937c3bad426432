"""Vector environments that behave as documented by their libraries, over known environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from tests.envs.gym import toy_envs


def single(member: str, limit: int) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(member, max_episode_steps=limit)


def sync_vector(member: str, num_envs: int, mode: AutoresetMode, limit: int = 9) -> SyncVectorEnv:
    assert toy_envs.WORLDS
    makers = [lambda: single(member, limit)] * num_envs
    return SyncVectorEnv(makers, autoreset_mode=mode)


class NextStepOnly(VectorEnv[Any, Any, Any]):
    """A vector environment that resets in the next step and has no reset mask."""

    def __init__(self, member: str, num_envs: int, limit: int = 9) -> None:
        self.inner = sync_vector(member, num_envs, AutoresetMode.NEXT_STEP, limit)
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = self.inner.single_observation_space
        self.single_action_space = self.inner.single_action_space
        self.observation_space = self.inner.observation_space
        self.action_space = self.inner.action_space

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.inner.reset(seed=seed)

    def step(self, actions: Any) -> Any:
        return self.inner.step(actions)

    def close_extras(self, **kwargs: Any) -> None:
        self.inner.close()


class Pool:
    """EnvPool's documented synchronous mode.

    `reset(env_id)` resets the named envs; stepping an env whose episode has ended resets it and
    ignores the action; results come in the order of finishing and info["env_id"] names them.
    """

    def __init__(self, member: str, num_envs: int, seed: int, limit: int = 9) -> None:
        self.config = {"num_envs": num_envs, "batch_size": num_envs, "max_episode_steps": limit}
        self.envs = [single(member, limit) for _ in range(num_envs)]
        self.observation_space = self.envs[0].observation_space
        self.action_space = self.envs[0].action_space
        self.seeds: list[int | None] = [seed + i for i in range(num_envs)]
        self.done = np.ones(num_envs, bool)
        self.order = np.random.default_rng(0)
        self.closed = 0
        self.wasted = 0

    def reset(self, env_id: Any = None) -> tuple[Any, dict[str, Any]]:
        ids = self._ids(env_id)
        return np.stack([self._reset(i) for i in ids]), {"env_id": ids}

    def step(self, action: Any, env_id: Any = None) -> Any:
        given = dict(
            zip(np.arange(len(self.envs)) if env_id is None else env_id, action, strict=True)
        )
        ids = self._ids(env_id)
        rows = []
        for i in ids:
            if self.done[i]:
                self.wasted += 1
                rows.append((self._reset(i), 0.0, False, False))
            else:
                obs, reward, terminated, truncated, _ = self.envs[i].step(given[i])
                self.done[i] = terminated or truncated
                rows.append((obs, reward, terminated, truncated))
        obs, reward, terminated, truncated = (
            np.array(column) for column in zip(*rows, strict=True)
        )
        return obs, reward.astype(np.float32), terminated, truncated, {"env_id": ids}

    def send(self, action: Any, env_id: Any = None) -> None:
        raise AssertionError("the synchronous mode is used through step")

    def recv(self) -> Any:
        raise AssertionError("the synchronous mode is used through step")

    def async_reset(self) -> None:
        raise AssertionError("the synchronous mode is used through reset")

    def close(self) -> None:
        self.closed += 1

    def _ids(self, env_id: Any) -> np.ndarray:
        ids = np.arange(len(self.envs)) if env_id is None else np.asarray(env_id)
        return self.order.permutation(ids).astype(np.int32)

    def _reset(self, i: int) -> Any:
        seed, self.seeds[i] = self.seeds[i], None
        self.done[i] = False
        return self.envs[i].reset(seed=seed)[0]
