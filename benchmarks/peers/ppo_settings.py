"""What both sides of the PPO comparisons train with, as data."""

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
    # The peers' schedules end with a run of known length, which these have not.
    lr_schedule="constant",
)
"""Network, epochs, loss and optimizer of `equal` and `defaults`, on both sides."""

CLEANRL = replace(COMMON, lr=2.5e-4, clip_value=0.2)
"""CleanRL's settings of ppo.py, its annealing of the learning rate left out."""

EngineChoice = Literal["auto", "fused", "torch"]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is collected, and how it is cut up."""

    num_envs: int
    update_steps: int
    """Steps of each environment per rollout."""
    minibatch_size: int
    epochs: int = COMMON.epochs

    @property
    def rollout(self) -> int:
        """Transitions of a rollout."""
        return self.num_envs * self.update_steps


@dataclass(frozen=True, slots=True)
class Terms:
    """One comparison."""

    ours: Scale
    peer: Scale
    config: PPOConfig = COMMON
    """Everything but the scale, the same on both sides."""
    backend: Literal["auto", "sync", "vector"] = "sync"
    """How our side steps the environments; the peer steps them one by one in process."""

    def our_config(self, seed: int, engine: EngineChoice = "auto") -> TrainConfig:
        """What our side trains, as `brisk train` would be asked to."""
        return TrainConfig(
            env=f"gym:{ENV}",
            algo="ppo",
            engine=engine,
            seed=seed,
            num_envs=self.ours.num_envs,
            env_config=GymConfig(backend=self.backend),
            algo_config=scaled(self.config, self.ours),
        )

    def peer_config(self) -> PPOConfig:
        """What the peer trains, in our words."""
        return scaled(self.config, self.peer)


def scaled(config: PPOConfig, scale: Scale) -> PPOConfig:
    """The config at a scale."""
    return replace(
        config,
        update_steps=scale.update_steps,
        minibatch_size=scale.minibatch_size,
        epochs=scale.epochs,
    )


_SMALL = Scale(num_envs=64, update_steps=32, minibatch_size=256)
_CLEANRL = Scale(num_envs=4, update_steps=128, minibatch_size=128)
_OURS = Scale(num_envs=1024, update_steps=32, minibatch_size=4096)

WHOLE = _OURS
"""Scale of the comparison of whole loops, for all sides."""


def whole_config(*, engine: EngineChoice, threads: int, seed: int) -> TrainConfig:
    """What our side of the comparison of whole loops trains: CartPole of our own."""
    return TrainConfig(
        env="cartpole",
        algo="ppo",
        engine=engine,
        threads=threads,
        seed=seed,
        num_envs=WHOLE.num_envs,
        env_config=CartPoleConfig(),
        algo_config=scaled(COMMON, WHOLE),
    )


def runner_settings(config: TrainConfig) -> dict[str, Any]:
    """The same for the other sides, which know nothing of our classes."""
    names = (
        "update_steps",
        "minibatch_size",
        "epochs",
        "net",
        "activation",
        "lr",
        "adam_eps",
        "gamma",
        "gae_lambda",
        "clip",
        "value_coef",
        "entropy_coef",
        "max_grad_norm",
        "normalize_advantage",
    )
    algo = {name: getattr(config.algo_config, name) for name in names}
    return {
        **algo,
        "num_envs": config.num_envs,
        "max_steps": config.env_config.max_steps,
        "seed": config.seed,
        "threads": config.threads,
    }


EQUAL = Terms(_SMALL, _SMALL)
CLEANRL_STYLE = Terms(_CLEANRL, _CLEANRL, CLEANRL)
DEFAULTS = Terms(_OURS, _SMALL, backend="auto")
VECTOR = Terms(_OURS, _SMALL, backend="vector")
