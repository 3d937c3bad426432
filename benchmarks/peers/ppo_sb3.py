"""Stable-Baselines3's PPO on a Gymnasium environment, in slices of whole rounds.

Imported only when Stable-Baselines3 is installed. SBX has the same interface.
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

WARM_UP_ROUNDS = 2
"""Rounds before timing starts: they include first calls, and compilation if a peer compiles."""


def make_envs(env: str, num_envs: int, seed: int) -> Any:
    """Environments as in the peer's documentation: stepped one after another, in process."""
    return make_vec_env(env, n_envs=num_envs, seed=seed)


def shared_arguments(config: PPOConfig, seed: int) -> dict[str, Any]:
    """The settings of `config` as arguments of PPO in any library with this interface."""
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


class RoundSliceCallback(BaseCallback):
    """Cuts the peer's training into slices of whole rounds, and lets the other side run between.

    A round is a rollout and the learning from it. The peer's `learn` is called once and never left;
    a slice begins and ends just before a rollout, so that neither its setup nor the other side's
    work is timed. The first round after warm-up determines the number of rounds per slice.

    Args:
        cpu_s: CPU seconds per slice; it has at least one round.
        slices: Slices that count; one more goes before them.
        between: Called before every slice.
    """

    def __init__(self, *, cpu_s: float, slices: int, between: Callable[[], None]) -> None:
        super().__init__()
        self.rates: list[float] = []
        """Steps per CPU second of the slices, including the first."""
        self.rounds = 0
        """Rounds per slice."""
        self._cpu_s = cpu_s
        self._slices = slices
        self._between = between
        self._started = 0
        self._left = 0
        self._begin = (0, 0.0)

    def _on_rollout_start(self) -> None:
        now = process_time()
        self._started += 1
        if self._started <= WARM_UP_ROUNDS:
            self._begin = (self.num_timesteps, process_time())
            return
        if self.rounds == 0:
            self.rounds = max(1, round(self._cpu_s / max(now - self._begin[1], 1e-9)))
            self._begin_slice()
            return
        self._left -= 1
        if self._left > 0:
            return
        step, begin = self._begin
        self.rates.append((self.num_timesteps - step) / (now - begin))
        if not self._is_done:
            self._begin_slice()

    def _begin_slice(self) -> None:
        self._between()
        self._left = self.rounds
        self._begin = (self.num_timesteps, process_time())

    @property
    def _is_done(self) -> bool:
        return len(self.rates) > self._slices

    def _on_step(self) -> bool:
        return not self._is_done
