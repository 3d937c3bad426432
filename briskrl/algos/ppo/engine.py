"""The interface of PPO engines, and the network and optimizer they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from briskrl.algos.distributions import Categorical, Gaussian, Subset
from briskrl.algos.ppo.config import PPOConfig
from briskrl.core.types import Array, Bools, Decision, Floats, Minibatch
from briskrl.nets.actor_critic import ActorCritic
from briskrl.nets.flat_parameters import FlatParameters
from briskrl.nets.safe_adam import SafeAdam

METRICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")
"""Means over steps that every engine reports."""


@dataclass(slots=True)
class PPOModel:
    """Network, optimizer and action distribution, shared by all engines."""

    config: PPOConfig
    network: ActorCritic
    flat: FlatParameters
    """The parameters and gradients of the network as one tensor each."""
    optimizer: SafeAdam
    distribution: Categorical | Subset | Gaussian


class PPOEngine(Protocol):
    """Acts, estimates values and learns with a PPOModel."""

    def refresh(self) -> None:
        """Read the network again after something else has changed it."""
        ...

    def act(self, obs: Array, mask: Bools | None, rng: np.random.Generator, out: Decision) -> None:
        """Write sampled actions and their log probabilities for N environments."""
        ...

    def values(self, obs: Array, out: Floats) -> None:
        """Write the value estimates (M,) of observations (M, *obs)."""
        ...

    def log_probs(self, obs: Array, action: Array, mask: Bools | None, out: Floats) -> None:
        """Write the log probabilities (M,) of given actions under the present policy."""
        ...

    def compute(self, batch: Minibatch, advantage: Floats) -> None:
        """Compute the gradient of the mean PPO loss.

        Args:
            batch: The steps to learn from.
            advantage: (B,) used instead of the batch's own, for example normalized.
        """
        ...

    def collect_gradient(self) -> None:
        """Write the whole gradient to `flat.gradients` of the model, where it may be changed."""
        ...

    def divergence(self) -> float:
        """Approximate KL divergence of the policy from the old one, on the last minibatch."""
        ...

    def step(self, lr: float) -> None:
        """Apply the gradient with Adam.

        Raises:
            DivergedError: Several updates in a row were not finite.
        """
        ...

    def drain(self) -> dict[str, float]:
        """Means of METRICS since the last call."""
        ...
