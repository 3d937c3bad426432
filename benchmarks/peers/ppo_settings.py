"""Settings of the PPO comparisons, shared by all sides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from briskrl.algos.ppo.config import PPOConfig
from briskrl.envs.cartpole.config import CartPoleConfig
from briskrl.envs.gym.config import GymConfig
from briskrl.training.config import TrainConfig

ENV = "CartPole-v1"

COMMON = PPOConfig(
    epochs=4,
    net=(64, 64),
    activation="tanh",
    shared=False,
    normalize_reward=False,
    # A schedule needs a known number of steps, which these runs do not have.
    lr_schedule="constant",
)
"""Network, epochs, loss and optimizer of all comparisons but CleanRL's."""

CLEANRL = replace(COMMON, lr=2.5e-4, clip_value=0.2)
"""Settings of CleanRL's ppo.py, without its annealing of the learning rate."""

EngineChoice = Literal["auto", "fused", "torch"]


@dataclass(frozen=True, slots=True)
class Scale:
    """Size of rollouts and minibatches."""

    num_envs: int
    update_steps: int
    """Steps of each environment per rollout."""
    minibatch_size: int
    epochs: int = COMMON.epochs

    @property
    def rollout(self) -> int:
        """Transitions per rollout."""
        return self.num_envs * self.update_steps


@dataclass(frozen=True, slots=True)
class PPOSettings:
    """One comparison."""

    ours: Scale
    peer: Scale
    config: PPOConfig = COMMON
    """Everything but the scale, the same on both sides."""
    backend: Literal["auto", "sync", "vector"] = "sync"
    """Backend of our side; the peer steps environments one by one in process."""

    def our_config(self, seed: int, engine: EngineChoice = "auto") -> TrainConfig:
        """The config of our side."""
        return TrainConfig(
            env=f"gym:{ENV}",
            algo="ppo",
            engine=engine,
            seed=seed,
            num_envs=self.ours.num_envs,
            env_config=GymConfig(backend=self.backend),
            algo_config=at_scale(self.config, self.ours),
        )

    def peer_config(self) -> PPOConfig:
        """The settings of the peer."""
        return at_scale(self.config, self.peer)


def at_scale(config: PPOConfig, scale: Scale) -> PPOConfig:
    """The config with rollouts and minibatches of this scale."""
    return replace(
        config,
        update_steps=scale.update_steps,
        minibatch_size=scale.minibatch_size,
        epochs=scale.epochs,
    )


_SMALL = Scale(num_envs=64, update_steps=32, minibatch_size=256)
_CLEANRL = Scale(num_envs=4, update_steps=128, minibatch_size=128)
_OURS = Scale(num_envs=1024, update_steps=32, minibatch_size=4096)

EQUAL = PPOSettings(_SMALL, _SMALL)
CLEANRL_STYLE = PPOSettings(_CLEANRL, _CLEANRL, CLEANRL)
DEFAULTS = PPOSettings(_OURS, _SMALL, backend="auto")
VECTOR = PPOSettings(_OURS, _SMALL, backend="vector")

PROCESS_SCALE = _OURS
"""Scale of all sides in the comparison of whole processes."""


def process_config(*, engine: EngineChoice, threads: int, seed: int) -> TrainConfig:
    """Our config in the comparison of whole processes: PPO on the native CartPole."""
    return TrainConfig(
        env="cartpole",
        algo="ppo",
        engine=engine,
        threads=threads,
        seed=seed,
        num_envs=PROCESS_SCALE.num_envs,
        env_config=CartPoleConfig(),
        algo_config=at_scale(COMMON, PROCESS_SCALE),
    )


def runner_settings(config: TrainConfig) -> dict[str, Any]:
    """The same settings as plain values, for runners without briskrl."""
    algo: PPOConfig = config.algo_config
    return {
        "update_steps": algo.update_steps,
        "minibatch_size": algo.minibatch_size,
        "epochs": algo.epochs,
        "net": algo.net,
        "activation": algo.activation,
        "lr": algo.lr,
        "adam_eps": algo.adam_eps,
        "gamma": algo.gamma,
        "gae_lambda": algo.gae_lambda,
        "clip": algo.clip,
        "value_coef": algo.value_coef,
        "entropy_coef": algo.entropy_coef,
        "max_grad_norm": algo.max_grad_norm,
        "normalize_advantage": algo.normalize_advantage,
        "num_envs": config.num_envs,
        "max_steps": config.env_config.max_steps,
        "seed": config.seed,
        "threads": config.threads,
    }
