"""What computes policy learning: the engines' contract, and the parts they work on."""

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


@dataclass(slots=True)
class PPOModel:
    """Network and optimizer of policy learning, whoever computes with them."""

    config: PPOConfig
    network: ActorCritic
    flat: FlatParameters
    optimizer: SafeAdam
    distribution: Categorical | Subset | Gaussian


class PPOEngine(Protocol):
    """Acts, foresees and learns with the parts it was built on."""

    def refresh(self) -> None:
        """Take notice that somebody else has changed the network."""
        ...

    def act(self, obs: Array, mask: Bools | None, rng: np.random.Generator, out: Decision) -> None:
        """Sampled actions and their log probabilities, for N environments."""
        ...

    def values(self, obs: Array, out: Floats) -> None:
        """Write the values (M,) of observations (M, *obs)."""
        ...

    def log_probs(self, obs: Array, action: Array, mask: Bools | None, out: Floats) -> None:
        """Write how likely the policy is to act so, (M,)."""
        ...

    def compute(self, batch: Minibatch, advantage: Floats) -> None:
        """Compute the gradient of the mean loss.

        Args:
            batch: What to learn from.
            advantage: (B,) to be taken instead of the batch's own.
        """
        ...

    def divergence(self) -> float:
        """How far the policy is from the anchors in the last minibatch."""
        ...

    def step(self, lr: float) -> None:
        """Apply the gradient.

        Raises:
            DivergedError: Several updates in a row were not finite.
        """
        ...

    def drain(self) -> dict[str, float]:
        """Means of METRICS since the last call."""
        ...
