"""Settings and presets of PPO, A2C and REINFORCE; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from briskrl.algos.dqn.config import check_body, check_pretraining
from briskrl.core.aliases import AliasTable
from briskrl.core.config import accepts_aliases


@accepts_aliases
@dataclass(frozen=True, slots=True)
class PPOConfig:
    """On-policy policy gradients: PPO (Schulman 2017), with A2C and REINFORCE as presets."""

    ALIASES: ClassVar[AliasTable] = {
        "n_steps": "update_steps",
        "num_steps": "update_steps",
        "n_epochs": "epochs",
        "update_epochs": "epochs",
        "batch_size": "minibatch_size",
        "clip_range": "clip",
        "clip_coef": "clip",
        "clip_range_vf": "clip_value",
        "ent_coef": "entropy_coef",
        "vf_coef": "value_coef",
        "norm_adv": "normalize_advantage",
        "learning_rate": "lr",
        "net_arch": "net",
    }
    # Fields that may differ when a run is resumed.
    RESUME_MAY_CHANGE: ClassVar[frozenset[str]] = frozenset(
        {"lr", "lr_schedule", "entropy_coef", "max_grad_norm", "target_kl"}
    )
    NO_EQUIVALENT: ClassVar[Mapping[str, str]] = {
        "num_minibatches": "Set minibatch_size to num_envs * update_steps / num_minibatches.",
        "anneal_lr": 'Set lr_schedule to "linear" or "constant".',
        "clip_vloss": "Set clip_value to the clip range of values, or to 0 for none.",
    }

    update_steps: Annotated[int, Meta(ge=1)] = 32
    """Rollout length: steps that each environment takes between two rounds of updates."""
    epochs: Annotated[int, Meta(ge=1)] = 4
    """Passes over every rollout."""
    minibatch_size: Annotated[int, Meta(ge=1)] = 4096
    """Steps per gradient update; a smaller rollout is one minibatch. If the rollout is not a
    multiple of it, minibatches are slightly larger."""
    clip: Annotated[float, Meta(ge=0)] = 0.2
    """PPO clip range of the probability ratio (Schulman 2017); 0 disables clipping, which gives the
    plain policy gradient."""
    clip_value: Annotated[float, Meta(ge=0)] = 0.0
    """Clip range of the value function: how far a value may move from its old estimate; 0 disables
    it."""
    entropy_coef: Annotated[float, Meta(ge=0)] = 0.01
    """Entropy coefficient of the loss."""
    value_coef: Annotated[float, Meta(ge=0)] = 0.5
    """Value function coefficient of the loss."""
    normalize_advantage: bool = True
    """Normalize the advantages of every minibatch to mean 0 and standard deviation 1."""
    baseline: Literal["values", "peers"] = "values"
    """Baseline of the advantages: the value network, or the mean return of all environments at the
    same step (peers). Peers need environments that run through whole episodes in step and under
    equal conditions."""
    max_grad_norm: Annotated[float, Meta(ge=0)] = 0.5
    """Maximum gradient norm; larger gradients are scaled down to it. 0 disables clipping."""
    target_kl: Annotated[float, Meta(ge=0)] = 0.0
    """Stop the updates on a rollout once the approximate KL divergence from the old policy exceeds
    this; 0 never stops early."""
    lr: Annotated[float, Meta(gt=0)] = 3e-3
    """Learning rate of Adam."""
    lr_schedule: Literal["constant", "linear"] = "linear"
    """Learning rate schedule: constant, or linear decay to 0 over the run."""
    adam_eps: Annotated[float, Meta(gt=0)] = 1e-5
    """Epsilon of Adam."""
    adam_beta2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    """Decay of Adam's mean of squared gradients (beta 2)."""
    gamma: Annotated[float, Meta(ge=0, le=1)] = 0.99
    """Discount factor."""
    gae_lambda: Annotated[float, Meta(ge=0, le=1)] = 0.95
    """Lambda of generalized advantage estimation (Schulman 2016); 1 gives Monte Carlo returns minus
    the baseline."""
    normalize_obs: bool = False
    """Normalize observations by their running mean and standard deviation, which are saved with the
    policy."""
    normalize_reward: bool = True
    """Divide rewards by the running standard deviation of the discounted return."""
    reuse: Annotated[int, Meta(ge=0, le=64)] = 0
    """Past rollouts to learn from again beside the newest, with truncated importance weights; 0 is
    standard PPO."""
    grad_accumulation: Annotated[int, Meta(ge=1)] = 1
    """Parts in which the gradient of a minibatch is computed, to save memory; the update stays the
    same."""
    shared: bool = False
    """Share one network body between policy and value function."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation function of the hidden layers."""
    body: str = "auto"
    """Network body: mlp, cnn, nature (strided convolutions for pictures, Mnih 2015), or fcn (fully
    convolutional, one output per cell, for boards of any size). auto takes nature for pictures of
    36x36 and more, fcn for planes with one action per cell, cnn for other planes and mlp for
    vectors. module:Class is a torch module of your own."""
    net: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1)] = (64, 64)
    """Widths of the hidden layers, for example 64,64."""
    channels: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1)] | None = None
    """Channels of the convolutions; unset means 16,32 for a cnn, 32,64,64 for nature and six layers
    of 16 for an fcn."""
    pretrain_from: str | None = None
    """Teacher to imitate before the first step (behavior cloning), for example dpv-iterative."""
    pretrain_steps: Annotated[int, Meta(ge=0)] = 0
    """Gradient updates of behavior cloning before the first step, rounded up to whole rollouts."""
    pretrain_lr: Annotated[float, Meta(gt=0)] = 1e-3
    """Learning rate of behavior cloning."""
    pretrain_entropy_coef: Annotated[float, Meta(ge=0)] = 0.0
    """Entropy coefficient of behavior cloning: with 0.14 the alternatives to a teacher's action
    keep about a tenth of the probability, among 400 actions."""

    def modules(self) -> tuple[str, ...]:
        """The modules that are imported for these settings."""
        module, colon, _ = self.body.partition(":")
        return (module,) if colon else ()

    def check(self) -> list[str]:
        """Problems with combinations of settings, one sentence each."""
        wrong = check_pretraining(self.pretrain_from, self.pretrain_steps) + check_body(self.body)
        if self.pretrain_from and not self.pretrain_steps:
            wrong.append("pretrain_from needs pretrain_steps, the number of updates.")
        if self.grad_accumulation > self.minibatch_size:
            wrong.append(
                f"grad_accumulation {self.grad_accumulation} is larger than minibatch_size "
                f"{self.minibatch_size}; a part must not be empty."
            )
        return wrong

    def minibatches(self, num_envs: int) -> int:
        """Gradient updates per pass over one rollout of `num_envs` environments."""
        return max(1, num_envs * self.update_steps // self.minibatch_size)


PPO_PRESETS: dict[str, dict[str, object]] = {
    "ppo": {},
    "a2c": {
        "update_steps": 8,
        "epochs": 1,
        "minibatch_size": 1 << 20,
        "clip": 0.0,
        "gae_lambda": 1.0,
        "normalize_advantage": False,
    },
    "reinforce": {
        "update_steps": 128,
        "epochs": 1,
        "lr": 1e-2,
        "normalize_reward": False,
        "minibatch_size": 1 << 20,
        "clip": 0.0,
        "gae_lambda": 1.0,
    },
}
"""Settings of each preset."""

PPO_IN_PYTHON: dict[str, object] = {
    "update_steps": 256,
    "minibatch_size": 256,
    "lr": 1e-3,
    "gae_lambda": 0.98,
}
"""Settings of `ppo` where environments are stepped in Python."""
