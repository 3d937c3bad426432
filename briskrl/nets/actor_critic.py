"""Actor-critic networks with one shared body or two separate ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from briskrl.core.spec import ArraySpec
from briskrl.nets.bodies import BodyOptions, FCNBody, InputScaling, ResidualBlock
from briskrl.nets.body_choice import Body, build_body
from briskrl.nets.heads import BoardHead, CellHead

_HIDDEN_GAIN = 2**0.5
_POLICY_GAIN = 0.01
_VALUE_GAIN = 1.0


@dataclass(frozen=True, slots=True)
class ActorCriticOptions:
    """The architecture of an actor-critic network."""

    body: BodyOptions
    shared: bool
    """One body for policy and value instead of one each."""
    standardize: bool
    """Observations are standardized first; see InputScaling."""
    continuous: bool
    """The policy is Gaussian: its outputs are means; standard deviations are parameters."""


class ActorCritic(nn.Module):
    """Maps observations to policy outputs and values.

    Policy outputs are (B, A) logits, or (B, 2 D) means and log standard deviations of D continuous
    actions.
    """

    def __init__(self, obs: ArraySpec, outputs: int, options: ActorCriticOptions) -> None:
        super().__init__()
        self.shared = options.shared
        self.inputs = InputScaling(obs, standardize=options.standardize)
        self.policy_body = build_body(obs, options.body, outputs)
        self.value_body = (
            self.policy_body if options.shared else build_body(obs, options.body, outputs)
        )
        self.policy_head = _policy_head(self.policy_body, outputs)
        self.value_head = _value_head(self.value_body, options.body)
        self.log_std = nn.Parameter(torch.zeros(outputs)) if options.continuous else None

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, *obs) -> policy outputs and values (B, 1)."""
        obs = self.inputs(obs)
        features = self.policy_body(obs)
        values: Tensor = self.value_head(features if self.shared else self.value_body(obs))
        return self.policy_outputs(self.policy_head(features)), values

    def policy(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> policy outputs."""
        return self.policy_outputs(self.policy_head(self.policy_body(self.inputs(obs))))

    def values(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> values (B, 1)."""
        values: Tensor = self.value_head(self.value_body(self.inputs(obs)))
        return values

    def policy_outputs(self, out: Tensor) -> Tensor:
        """The output of the policy head, with the log standard deviations of continuous actions."""
        if isinstance(self.policy_head, CellHead):
            out = out.squeeze(2)
        if self.log_std is None:
            return out
        return torch.cat([out, self.log_std.expand_as(out)], 1)


def _policy_head(body: Body, outputs: int) -> nn.Linear | CellHead:
    if isinstance(body, FCNBody):
        return CellHead(body.features, 1, body.activation)
    return nn.Linear(body.features, outputs)


def _value_head(body: Body, options: BodyOptions) -> nn.Linear | BoardHead:
    if isinstance(body, FCNBody):
        return BoardHead(body.features, options.widths, 1, body.activation)
    return nn.Linear(body.features, 1)


def build_actor_critic(
    obs: ArraySpec, outputs: int, options: ActorCriticOptions, generator: torch.Generator
) -> ActorCritic:
    """A network with orthogonal weights drawn from `generator` only, and biases of 0.

    Weights of the policy head are small, so that the first policy is almost uniform (Andrychowicz
    2021, section 3.2).
    """
    network = ActorCritic(obs, outputs, options)
    gains = _gains(network)
    with _one_thread():
        for layer in network.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                nn.init.orthogonal_(layer.weight, gains.get(layer, _HIDDEN_GAIN), generator)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
    return network


@contextmanager
def _one_thread() -> Iterator[None]:
    """Factorize with one thread: more threads round differently, and cost 0.3 s of CPU to start."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _gains(network: ActorCritic) -> dict[nn.Module, float]:
    """Gains of layers that differ from that of hidden layers."""
    policy, value = network.policy_head, network.value_head
    gains: dict[nn.Module, float] = {
        policy.out if isinstance(policy, CellHead) else policy: _POLICY_GAIN,
        value.out if isinstance(value, BoardHead) else value: _VALUE_GAIN,
    }
    # The outputs of residual blocks add up: together they count as one layer.
    for body in (network.policy_body, network.value_body):
        blocks = [block for block in body.modules() if isinstance(block, ResidualBlock)]
        for block in blocks:
            gains[block.convolution] = _HIDDEN_GAIN / len(blocks) ** 0.5
            if block.around is not None:
                gains[block.around] = 1.0
    return gains
