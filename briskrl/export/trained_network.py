"""The network of a trained policy: its outputs, and how actions follow from them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from briskrl.algos.base import Policy
from briskrl.algos.dqn.policy import QPolicy, action_values
from briskrl.algos.ppo.policy import StochasticPolicy
from briskrl.algos.pqn.policy import PQNPolicy
from briskrl.core.errors import ConfigError
from briskrl.core.types import Floats
from briskrl.export.lowering import Lowered, lower_actor, lower_q_network
from briskrl.export.selection import Kind
from briskrl.nets.actor_critic import ActorCritic
from briskrl.nets.q_network import QNetwork


class ActorScores(nn.Module):
    """Logits, or means and log standard deviations, (N, outputs)."""

    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        self.network = network

    def forward(self, obs: Tensor) -> Tensor:
        """(N, *obs) -> (N, outputs)."""
        return self.network.policy(obs)


class ValueScores(nn.Module):
    """Action values (N, A)."""

    def __init__(self, network: QNetwork, support: Tensor | None) -> None:
        super().__init__()
        self.network = network
        self.support = support

    def forward(self, obs: Tensor) -> Tensor:
        """(N, *obs) -> (N, A)."""
        return action_values(self.network(obs), self.support)


@dataclass(frozen=True, slots=True)
class TrainedNetwork:
    """A network of any algorithm."""

    scores: ActorScores | ValueScores
    kind: Kind

    def score(self, obs: Floats) -> Floats:
        """Network outputs (N, outputs) for observations (N, *obs) float32."""
        with torch.inference_mode():
            found: Floats = self.scores(torch.from_numpy(obs)).numpy()
        return found

    def lower(self) -> Lowered:
        """The network as a program."""
        if isinstance(self.scores, ActorScores):
            return lower_actor(self.scores.network)
        return lower_q_network(self.scores.network, self.scores.support)


def network_of(policy: Policy) -> TrainedNetwork:
    """The network of a policy.

    Raises:
        ConfigError: The policy is of another kind, for example of an algorithm from elsewhere.
    """
    if isinstance(policy, StochasticPolicy):
        kind: Kind = "gaussian" if policy.distribution.continuous else "logits"
        return TrainedNetwork(ActorScores(policy.network), kind)
    if isinstance(policy, PQNPolicy):
        return TrainedNetwork(ValueScores(policy.network, None), "values")
    if isinstance(policy, QPolicy):
        return TrainedNetwork(ValueScores(policy.network, policy.support), "values")
    raise ConfigError(
        f"A {type(policy).__name__} cannot be exported: only policies of the built-in algorithms "
        "can. Its own `act(obs, mask)` works as before."
    )
