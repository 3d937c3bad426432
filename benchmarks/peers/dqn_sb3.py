"""Stable-Baselines3's DQN on our Snake, through a thin adapter.

Imported only when Stable-Baselines3 is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from briskrl.algos.dqn.config import DQNConfig
from briskrl.core.types import Array, StepBuffers
from briskrl.envs.snake.env import SnakeVecEnv

NEVER = 1_000_000_000
"""A number of steps that no benchmark reaches; the callback stops the peer."""


class SnakeForSB3(VecEnv):
    """N compiled games with the VecEnv interface of Stable-Baselines3.

    Infos share one empty dict except where a game ended: those hold what the peer's replay buffer
    needs for bootstrapping. Observations are copies, because the peer keeps them.
    """

    def __init__(self, env: SnakeVecEnv, seed: int) -> None:
        self.env = env
        self.render_mode = None
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)
        self._seed = seed
        self._out = StepBuffers.allocate(env.env_spec, env.num_envs)
        self._actions = np.zeros(env.num_envs, np.int64)
        self._nothing: list[dict[str, Any]] = [{}] * env.num_envs

    def reset(self) -> Array:
        """Start new games everywhere."""
        self.env.start(self._seed, self._out)
        return self._out.obs.copy()

    def step_async(self, actions: Array) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        """Step all games."""
        out = self._out
        self.env.step_into(self._actions, out)
        dones = out.terminated | out.truncated
        infos = self._nothing
        if dones.any():
            infos = infos.copy()
            for i in np.flatnonzero(dones):
                infos[i] = {
                    "terminal_observation": out.final_obs[i].copy(),
                    "TimeLimit.truncated": bool(out.truncated[i]),
                }
        return out.obs.copy(), out.reward.copy(), dones, infos

    def close(self) -> None:
        """Release the games."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of this adapter, repeated for every game."""
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not supported."""
        raise AttributeError(attr_name)

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        """Not supported."""
        raise AttributeError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """False everywhere."""
        return [False] * self.num_envs


def build_dqn(env: SnakeForSB3, config: DQNConfig, seed: int) -> DQN:
    """The peer's DQN with the network, batch size, ratio, replay buffer and schedules of `config`.

    The target network is updated after as many transitions as ours on average, and epsilon falls to
    its end over the same number of them. There are num_envs * ratio updates per vector step, or one
    update per 1 / (num_envs * ratio) vector steps; one of the two must be a whole number.
    """
    per_step = env.num_envs * config.ratio
    return DQN(
        "MlpPolicy",
        env,
        learning_rate=config.lr,
        buffer_size=config.buffer_size,
        learning_starts=config.learning_starts,
        batch_size=config.batch_size,
        gamma=config.gamma,
        train_freq=max(1, round(1 / per_step)),
        gradient_steps=max(1, round(per_step)),
        target_update_interval=round(config.target_every / config.ratio),
        exploration_initial_eps=config.epsilon_start,
        exploration_final_eps=config.epsilon_end,
        exploration_fraction=config.epsilon_steps / NEVER,
        max_grad_norm=config.max_grad_norm,
        policy_kwargs={"net_arch": list(config.net)},
        device="cpu",
        seed=seed,
        verbose=0,
    )


class SliceCallback(BaseCallback):
    """Cuts the peer's training into slices and calls a function after each.

    The peer's `learn` is called once and never left, so that slices hold training alone: neither
    its setup nor the other side's work is timed.

    Args:
        cpu_s: CPU seconds per slice.
        first_step: Step at which the first slice begins.
        slices: Slices that count; one more goes before them.
        after_slice: Called with the steps per CPU second of every slice.
    """

    def __init__(
        self, *, cpu_s: float, first_step: int, slices: int, after_slice: Callable[[float], None]
    ) -> None:
        super().__init__()
        self._cpu_s = cpu_s
        self._first_step = first_step
        self._left = slices + 1
        self._after_slice = after_slice
        self._begin: tuple[int, float] | None = None

    def _on_step(self) -> bool:
        now = process_time()
        if self._begin is None:
            if self.num_timesteps >= self._first_step:
                self._begin = (self.num_timesteps, process_time())
            return True
        step, begin = self._begin
        if now - begin < self._cpu_s:
            return True
        self._after_slice((self.num_timesteps - step) / (now - begin))
        self._begin = (self.num_timesteps, process_time())
        self._left -= 1
        return self._left > 0
