"""Stable-Baselines3's DQN on our Snake, behind an adapter as thin as its interface allows.

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

FAR_AWAY = 1_000_000_000
"""Steps that no benchmark reaches; the peer is stopped by its callback."""


class SnakeForSB3(VecEnv):
    """N compiled games behind the interface that Stable-Baselines3 steps.

    Infos are one shared empty dict except where a game ended: those hold what the peer's replay
    needs to bootstrap properly. Observations are copied, as the peer keeps them.
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
        """Begin new games everywhere."""
        self.env.start(self._seed, self._out)
        return self._out.obs.copy()

    def step_async(self, actions: Array) -> None:
        """Take note of the moves."""
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        """Make the moves."""
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
        """An attribute of the games, which all share it."""
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Nothing can be set."""
        raise AttributeError(attr_name)

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        """There are no methods to call."""
        raise AttributeError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Nothing is wrapped."""
        return [False] * self.num_envs


def build_dqn(env: SnakeForSB3, config: DQNConfig, seed: int) -> DQN:
    """The peer's DQN with the same network, batch, ratio, memory and schedules as `config`.

    The target is refreshed after as many transitions as ours is on average, and exploration falls
    to its end over the same number of them. One vector step earns num_envs * ratio updates, or one
    update is done in so many vector steps; either must be a whole number.
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
        exploration_fraction=config.epsilon_steps / FAR_AWAY,
        max_grad_norm=config.max_grad_norm,
        policy_kwargs={"net_arch": list(config.net)},
        device="cpu",
        seed=seed,
        verbose=0,
    )


class Turns(BaseCallback):
    """Lets somebody else work between two stretches of the peer's training.

    The peer's `learn` is called once and never left, so that its stretches hold training alone:
    neither its set-up nor the other side's work is on its clock.

    Args:
        cpu_s: CPU seconds of a stretch.
        first_step: Where the first stretch begins.
        slices: Stretches that count; one more goes before them.
        between: Called after every stretch.
    """

    def __init__(
        self, *, cpu_s: float, first_step: int, slices: int, between: Callable[[], None]
    ) -> None:
        super().__init__()
        self.speeds: list[float] = []
        """Steps per CPU second of the stretches, the first one included."""
        self._cpu_s = cpu_s
        self._first_step = first_step
        self._slices = slices
        self._between = between
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
        self.speeds.append((self.num_timesteps - step) / (now - begin))
        self._between()
        self._begin = (self.num_timesteps, process_time())
        return len(self.speeds) <= self._slices
