"""Settings and presets of PPO, A2C and REINFORCE; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from briskrl.algos.dqn.config import check_pretraining
from briskrl.core.aliases import AliasTable
from briskrl.core.config import accepts_aliases


@accepts_aliases
@dataclass(frozen=True, slots=True)
class PPOConfig:
    """Policy gradients from fresh rollouts: PPO, and as special cases A2C and REINFORCE."""

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
    NO_EQUIVALENT: ClassVar[Mapping[str, str]] = {
        "num_minibatches": "Set minibatch_size to num_envs * update_steps / num_minibatches.",
        "anneal_lr": 'Set lr_schedule to "linear" or "constant".',
        "clip_vloss": "Set clip_value to the clip range of values, or to 0 for none.",
    }

    update_steps: Annotated[int, Meta(ge=1)] = 32
    """Steps each environment takes between two rounds of learning (the rollout's length)."""
    epochs: Annotated[int, Meta(ge=1)] = 4
    """Passes over a rollout."""
    minibatch_size: Annotated[int, Meta(ge=1)] = 4096
    """Steps per gradient update; a smaller rollout is one minibatch. What is left over when the
    rollout is no whole number of minibatches is spread over them."""
    clip: Annotated[float, Meta(ge=0)] = 0.2
    """How far the chance of an action may move in one round, as a share; 0 switches clipping off,
    which leaves the plain policy gradient."""
    clip_value: Annotated[float, Meta(ge=0)] = 0.0
    """How far a value may move in one round; 0 lets it move freely."""
    entropy_coef: Annotated[float, Meta(ge=0)] = 0.01
    """Weight of the bonus for undecided policies."""
    value_coef: Annotated[float, Meta(ge=0)] = 0.5
    """Weight of the value loss."""
    normalize_advantage: bool = True
    """Scale the advantages of every minibatch to mean 0 and deviation 1."""
    baseline: Literal["values", "peers"] = "values"
    """What returns are compared with: what the value network expected, or the mean return of all
    environments from the same step on. Peers are for environments that run in step through whole
    episodes under the same chance."""
    max_grad_norm: Annotated[float, Meta(ge=0)] = 0.5
    """Gradients are scaled down to this norm; 0 leaves them alone."""
    target_kl: Annotated[float, Meta(ge=0)] = 0.0
    """Stop learning from a rollout once the policy has moved this far; 0 never stops early."""
    lr: Annotated[float, Meta(gt=0)] = 3e-3
    """Adam's step size."""
    lr_schedule: Literal["constant", "linear"] = "linear"
    """Whether the step size stays or falls to 0 over the run's budget."""
    adam_eps: Annotated[float, Meta(gt=0)] = 1e-5
    """Adam's denominator offset."""
    gamma: Annotated[float, Meta(ge=0, le=1)] = 0.99
    """Discount per step."""
    gae_lambda: Annotated[float, Meta(ge=0, le=1)] = 0.95
    """How far advantages look ahead before they trust the values; 1 takes the returns themselves
    (Schulman 2016)."""
    normalize_obs: bool = False
    """Scale observations by their running mean and deviation; saved with the policy."""
    normalize_reward: bool = True
    """Scale rewards by the running deviation of the discounted return; large returns otherwise
    upset the values, and with them the policy."""
    reuse: Annotated[int, Meta(ge=0, le=64)] = 0
    """Learn again from this many past rollouts, weighted by how likely the policy still is to act
    so; 0 is exactly PPO."""
    grad_accumulation: Annotated[int, Meta(ge=1)] = 1
    """Pieces that every minibatch is computed in, to save memory; the update stays the same."""
    shared: bool = False
    """One body for policy and values instead of one each."""
    activation: Literal["tanh", "relu"] = "tanh"
    """What follows every hidden layer."""
    body: Literal["auto", "mlp", "cnn", "fcn"] = "auto"
    """Network body; auto takes fcn (one output per cell, for boards of any size) for planes with an
    action for each cell, cnn for other planes and mlp for vectors."""
    net: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1)] = (64, 64)
    """Widths of the hidden layers, for example 64,64."""
    channels: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1)] | None = None
    """Channels of the convolutions; unset means 16,32 for a cnn body and six of 16 for an fcn."""
    pretrain_from: str | None = None
    """Teacher to imitate before the first step, for example dpv-iterative."""
    pretrain_steps: Annotated[int, Meta(ge=0)] = 0
    """Gradient updates on the teacher's games before the first step; whole rollouts are learnt."""
    pretrain_lr: Annotated[float, Meta(gt=0)] = 1e-3
    """Adam's step size while pretraining."""
    pretrain_entropy_coef: Annotated[float, Meta(ge=0)] = 0.0
    """Weight of the bonus for undecided policies while pretraining: with 0.14 the alternatives to a
    teacher's action keep about a tenth of the chance, among 400 actions."""

    def check(self) -> list[str]:
        """Combinations that cannot work, one sentence each."""
        wrong = check_pretraining(self.pretrain_from, self.pretrain_steps)
        if self.pretrain_from and not self.pretrain_steps:
            wrong.append("pretrain_from needs pretrain_steps, the updates to imitate it with.")
        if self.grad_accumulation > self.minibatch_size:
            wrong.append(
                f"grad_accumulation {self.grad_accumulation} is larger than minibatch_size "
                f"{self.minibatch_size}; a minibatch cannot be cut into empty pieces."
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
"""What each name of the family switches on."""
