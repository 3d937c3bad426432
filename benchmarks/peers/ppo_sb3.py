"""Stable-Baselines3's PPO on a Gymnasium environment, and turns of whole rounds of it.

Imported only when Stable-Baselines3 is installed. SBX has the same interface, so that its PPO is
built and interrupted in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from torch import nn

from briskrl.algos.ppo.config import PPOConfig

WARM_ROUNDS = 2
"""Rounds before anything is timed: they hold first calls, and compiling where a peer compiles."""


def make_envs(env: str, num_envs: int, seed: int) -> Any:
    """Environments as the peer's own documentation makes them: one after another, in process."""
    return make_vec_env(env, n_envs=num_envs, seed=seed)


def shared_arguments(config: PPOConfig, seed: int) -> dict[str, Any]:
    """The arguments of PPO that say what `config` says, for any library of this interface."""
    return {
        "learning_rate": config.lr,
        "n_steps": config.update_steps,
        "batch_size": config.minibatch_size,
        "n_epochs": config.epochs,
        "gamma": config.gamma,
        "gae_lambda": config.gae_lambda,
        "clip_range": config.clip,
        "clip_range_vf": config.clip_value or None,
        "normalize_advantage": config.normalize_advantage,
        "ent_coef": config.entropy_coef,
        "vf_coef": config.value_coef,
        "max_grad_norm": config.max_grad_norm,
        "device": "cpu",
        "seed": seed,
        "verbose": 0,
    }


def build_ppo(env: Any, config: PPOConfig, seed: int) -> Any:
    """The peer's PPO with the network, loss, optimizer and schedule of `config`."""
    widths = list(config.net)
    activation = {"tanh": nn.Tanh, "relu": nn.ReLU}[config.activation]
    return PPO(
        "MlpPolicy",
        env,
        policy_kwargs={
            "net_arch": {"pi": widths, "vf": widths},
            "activation_fn": activation,
            "optimizer_kwargs": {"eps": config.adam_eps},
        },
        **shared_arguments(config, seed),
    )


class RoundTurns(BaseCallback):
    """Lets somebody else work between two stretches of whole rounds of the peer's training.

    A round is a rollout and what is learnt from it. The peer's `learn` is called once and never
    left; a stretch begins and ends just before a rollout, so that neither its set-up nor the other
    side's work is on its clock. How many rounds a stretch has is told by the first warm one.

    Args:
        cpu_s: CPU seconds that a stretch should take; it has one round at least.
        slices: Stretches that count; one more goes before them.
        between: Called before every stretch.
    """

    def __init__(self, *, cpu_s: float, slices: int, between: Callable[[], None]) -> None:
        super().__init__()
        self.speeds: list[float] = []
        """Steps per CPU second of the stretches, the first one included."""
        self.rounds = 0
        """Rounds of a stretch."""
        self._cpu_s = cpu_s
        self._slices = slices
        self._between = between
        self._started = 0
        self._left = 0
        self._begin = (0, 0.0)

    def _on_rollout_start(self) -> None:
        now = process_time()
        self._started += 1
        if self._started <= WARM_ROUNDS:
            self._begin = (self.num_timesteps, process_time())
            return
        if self.rounds == 0:
            self.rounds = max(1, round(self._cpu_s / max(now - self._begin[1], 1e-9)))
            self._hand_over()
            return
        self._left -= 1
        if self._left > 0:
            return
        step, begin = self._begin
        self.speeds.append((self.num_timesteps - step) / (now - begin))
        if not self._is_done:
            self._hand_over()

    def _hand_over(self) -> None:
        self._between()
        self._left = self.rounds
        self._begin = (self.num_timesteps, process_time())

    @property
    def _is_done(self) -> bool:
        return len(self.speeds) > self._slices

    def _on_step(self) -> bool:
        return not self._is_done
