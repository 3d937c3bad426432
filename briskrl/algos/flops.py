"""Floating-point operations of the matrix products in acting and learning.

A dense layer takes 2 * inputs * outputs operations per row forward, as many backward for the
gradient of its weights, and as many again for that of its inputs, which the first layer does not
need. A convolution does so at every cell and for each of its 3x3 windows. Activations, losses,
noise and the optimizer are not counted: an engine should make them cheap instead of being credited
for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import nn

from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.ppo.config import PPOConfig
from briskrl.algos.pqn.config import PQNConfig
from briskrl.nets.actor_critic import ActorCritic
from briskrl.nets.bodies import FCNBody, MLPBody
from briskrl.nets.body_choice import Body
from briskrl.nets.custom_body import CustomBody
from briskrl.nets.heads import BoardHead, CellHead
from briskrl.nets.image_bodies import Convolutions, MultiInputBody
from briskrl.nets.q_network import QNetwork


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of a run."""

    per_step: float
    """Per action of one environment."""
    per_update: float
    """Per gradient update, with its share of what is computed for several updates at once."""

    def total(self, steps: int, updates: int) -> float:
        """Operations of `steps` transitions and `updates` updates."""
        return steps * self.per_step + updates * self.per_update


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations per row of some layers."""

    forward: int = 0
    backward: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.forward + other.forward, self.backward + other.backward)


def value_flops(config: DQNConfig, network: QNetwork) -> Flops:
    """Operations of DQN: batches forward through both networks, backward through the online one."""
    cost = value_cost(network)
    # Double DQN evaluates the next observations with the online network, too.
    forwards = 3 if config.double else 2
    return Flops(
        per_step=cost.forward,
        per_update=config.batch_size * (forwards * cost.forward + cost.backward),
    )


def policy_flops(config: PPOConfig, network: ActorCritic, num_envs: int) -> Flops:
    """Operations of PPO: minibatches forward and backward, and the values of the rollouts.

    Values are computed for every observation of a rollout, including the one after its last step,
    and log probabilities for every step of a reused rollout. Final observations of truncated
    episodes are not counted, because their number is not known beforehand.
    """
    body = body_cost(network.policy_body)
    value_body = body if network.shared else body_cost(network.value_body)
    policy = body + head_cost(network.policy_head, network.policy_body)
    value_head = head_cost(network.value_head, network.value_body)
    value = value_body + value_head
    whole = policy + (value_head if network.shared else value)
    updates = config.epochs * config.minibatches(num_envs)
    steps = num_envs * config.update_steps
    learning = config.epochs * steps * (whole.forward + whole.backward)
    values = num_envs * (config.update_steps + 1) * value.forward
    log_probs = steps * policy.forward * config.reuse / (1 + config.reuse)
    return Flops(
        per_step=policy.forward,
        per_update=(learning + values + log_probs) / updates,
    )


def pqn_flops(config: PQNConfig, network: QNetwork, num_envs: int) -> Flops:
    """Operations of PQN: minibatches forward and backward, and the values of the rollouts.

    As for PPO, the values of every observation of a rollout are counted, and those of final
    observations of truncated episodes are not.
    """
    cost = value_cost(network)
    steps, updates = num_envs * config.update_steps, config.epochs * config.minibatches(num_envs)
    learning = config.epochs * steps * (cost.forward + cost.backward)
    values = num_envs * (config.update_steps + 1) * cost.forward
    return Flops(per_step=cost.forward, per_update=(learning + values) / updates)


def value_cost(network: QNetwork) -> Cost:
    """One row through a Q-network."""
    head, body = network.head, network.body
    cost = body_cost(body) + head_cost(head.advantage, body)
    return cost if head.value is None else cost + head_cost(head.value, body)


def body_cost(body: Body) -> Cost:
    """One row through a body, whose first layer needs no gradient of its inputs."""
    if isinstance(body, MLPBody):
        return _chain(dense_cost(layer) for layer in body.linears)
    if isinstance(body, CustomBody):
        # What its layers compute is unknown: as if every one of them were dense.
        return _cost(sum(parameter.numel() for parameter in body.parameters()))
    if isinstance(body, FCNBody):
        convolutions = [layer for layer in body.modules() if isinstance(layer, nn.Conv2d)]
        return _chain(_cost(layer.weight.numel() * body.cells) for layer in convolutions)
    dense = [dense_cost(layer) for layer in body.mlp.linears]
    if isinstance(body, MultiInputBody):
        encoders = [encoder for encoder in body.encoders if isinstance(encoder, Convolutions)]
        images = [_chain(_convolution_costs(encoder.layers, encoder.cells)) for encoder in encoders]
        return sum(dense, sum(images, Cost()))
    return _chain(_convolution_costs(body.convolutions, body.cells) + dense)


def _convolution_costs(layers: nn.ModuleList, cells: Sequence[int]) -> list[Cost]:
    costs = []
    for layer, size in zip(layers, cells, strict=True):
        assert isinstance(layer, nn.Conv2d)
        costs.append(_cost(layer.weight.numel() * size))
    return costs


def head_cost(head: nn.Module, body: Body) -> Cost:
    """One row through a head; heads of cells are applied to every cell."""
    if isinstance(head, CellHead) and isinstance(body, FCNBody):
        each = dense_cost(head.mix) + dense_cost(head.out)
        board = dense_cost(head.context)
        return Cost(each.forward * body.cells, each.backward * body.cells) + board
    if isinstance(head, BoardHead):
        return sum(map(dense_cost, head.mlp.linears), dense_cost(head.out))
    return dense_cost(head)


def dense_cost(layer: nn.Module) -> Cost:
    """One row through a dense layer, noisy or not, that is not the first."""
    weight = layer.weight
    assert isinstance(weight, nn.Parameter)
    return _cost(weight.numel())


def _cost(products: int) -> Cost:
    """Two operations per multiply-add; backward has one gradient for weights and one for inputs."""
    return Cost(2 * products, 4 * products)


def _chain(layers: Iterable[Cost]) -> Cost:
    first, *rest = layers
    total = Cost(first.forward, first.backward // 2)
    for cost in rest:
        total += cost
    return total
