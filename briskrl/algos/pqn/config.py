"""Settings of PQN; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from briskrl.core.aliases import AliasTable
from briskrl.core.config import accepts_aliases


@accepts_aliases
@dataclass(frozen=True, slots=True)
class PQNConfig:
    """Parallelized Q-networks (Gallici 2025): Q-learning from rollouts of many environments."""

    ALIASES: ClassVar[AliasTable] = {
        "n_steps": "update_steps",
        "num_steps": "update_steps",
        "n_epochs": "epochs",
        "update_epochs": "epochs",
        "batch_size": "minibatch_size",
        "learning_rate": "lr",
        "net_arch": "net",
        "exploration_initial_eps": "epsilon_start",
        "exploration_final_eps": "epsilon_end",
        "start_e": "epsilon_start",
        "end_e": "epsilon_end",
    }
    NO_EQUIVALENT: ClassVar[Mapping[str, str]] = {
        "num_minibatches": "Set minibatch_size to num_envs * update_steps / num_minibatches.",
        "anneal_lr": 'Set lr_schedule to "linear" or "constant".',
        "buffer_size": "PQN has no replay buffer; use --algo dqn for one.",
        "learning_starts": "PQN learns from its first rollout; use --algo dqn for a replay buffer.",
        "target_every": "PQN has no target network; layer_norm keeps it stable instead.",
        "train_steps_ratio": "Set epochs, update_steps and minibatch_size.",
    }

    update_steps: Annotated[int, Meta(ge=1)] = 32
    """Rollout length: steps that each environment takes between two rounds of updates."""
    epochs: Annotated[int, Meta(ge=1)] = 4
    """Passes over every rollout."""
    minibatch_size: Annotated[int, Meta(ge=1)] = 128
    """Steps per gradient update; a smaller rollout is one minibatch. If the rollout is not a
    multiple of it, minibatches are slightly larger."""
    lr: Annotated[float, Meta(gt=0)] = 1e-3
    """Learning rate of Adam."""
    lr_schedule: Literal["constant", "linear"] = "linear"
    """Learning rate schedule: constant, or linear decay to 0 over the run."""
    adam_eps: Annotated[float, Meta(gt=0)] = 1e-5
    """Epsilon of Adam."""
    gamma: Annotated[float, Meta(ge=0, le=1)] = 0.99
    """Discount factor."""
    q_lambda: Annotated[float, Meta(ge=0, le=1)] = 0.9
    """Lambda of the returns that the network learns: 0 bootstraps after one step, 1 only at the end
    of the rollout (Daley 2019)."""
    max_grad_norm: Annotated[float, Meta(ge=0)] = 10.0
    """Maximum gradient norm; larger gradients are scaled down to it. 0 disables clipping."""
    epsilon_start: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Probability of a random action at the first step."""
    epsilon_end: Annotated[float, Meta(ge=0, le=1)] = 0.05
    """Probability of a random action after the decay."""
    exploration_fraction: Annotated[float, Meta(gt=0, le=1)] = 0.2
    """Share of the run's budget over which epsilon decays linearly."""
    epsilon_steps: Annotated[int, Meta(ge=0)] = 0
    """Transitions over which epsilon decays, instead of a share of the budget; 0 for that share."""
    normalize_obs: bool = True
    """Normalize observations by their running mean and standard deviation, which are saved with the
    policy."""
    normalize_reward: bool = False
    """Divide rewards by the running standard deviation of the discounted return."""
    grad_accumulation: Annotated[int, Meta(ge=1)] = 1
    """Parts in which the gradient of a minibatch is computed, to save memory; the update stays the
    same."""
    dueling: bool = False
    """Dueling network: separate value and advantage heads (Wang 2016)."""
    layer_norm: bool = True
    """Layer normalization before every activation of an mlp or cnn, which makes up for the target
    network."""
    body: Literal["auto", "mlp", "cnn", "nature", "fcn"] = "auto"
    """Network body: mlp, cnn, nature (strided convolutions for pictures), or fcn (fully
    convolutional, one output per cell, for boards of any
    size). auto takes fcn for planes with one action per cell, cnn for other planes and mlp for
    vectors."""
    net: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1)] = (128, 128)
    """Widths of the hidden layers, for example 128,128."""
    channels: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1)] | None = None
    """Channels of the convolutions; unset means 16,32 for a cnn and six layers of 16 for an fcn."""

    def check(self) -> list[str]:
        """Problems with combinations of settings, one sentence each."""
        if self.grad_accumulation > self.minibatch_size:
            return [
                f"grad_accumulation {self.grad_accumulation} is larger than minibatch_size "
                f"{self.minibatch_size}; a part must not be empty."
            ]
        return []

    def minibatches(self, num_envs: int) -> int:
        """Gradient updates per pass over one rollout of `num_envs` environments."""
        return max(1, num_envs * self.update_steps // self.minibatch_size)
