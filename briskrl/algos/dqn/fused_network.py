"""Q-networks as the kernels of the fused engine see them, and copies for other threads."""

from __future__ import annotations

import numpy as np

from briskrl.algos.dqn.engine import DQNModel
from briskrl.algos.dqn.kernels.heads import QHeads
from briskrl.core.types import aligned_zeros
from briskrl.fused.kernels.structs import Net, Optimizer
from briskrl.fused.layer_table import LayerTable
from briskrl.fused.network import build_net
from briskrl.nets.bodies import MLPBody
from briskrl.nets.flat_parameters import SPARE, FlatParameters
from briskrl.nets.heads import QHead
from briskrl.nets.q_network import QNetwork


def copy_net(net: Net) -> Net:
    """A copy of a network, with arrays of its own."""
    spare = aligned_zeros((len(net.values) + SPARE,), net.values.dtype)
    return net._replace(
        values=spare[: len(net.values)],
        packed=net.packed.copy(),
        noisy_weights=net.noisy_weights.copy(),
        noise=net.noise.copy(),
    )


def copy_optimizer(net: Net, optimizer: Optimizer) -> Optimizer:
    """A copy of an optimizer for a copy of its network; the settings are shared."""
    return optimizer._replace(
        values=net.values,
        gradients=optimizer.gradients.copy(),
        mean=optimizer.mean.copy(),
        variance=optimizer.variance.copy(),
        count=optimizer.count.copy(),
        counters=optimizer.counters.copy(),
    )


def build_network(
    model: DQNModel, network: QNetwork, flat: FlatParameters, inputs: int
) -> tuple[Net, LayerTable, QHeads]:
    """A Q-network as kernels see it."""
    table = LayerTable(flat, inputs)
    heads = add_q_network(table, network)
    if model.support is not None:
        heads = heads._replace(support=model.support.numpy(), quantiles=0)
    return build_net(table, flat), table, heads


def add_q_network(table: LayerTable, network: QNetwork) -> QHeads:
    """Add the layers of a Q-network to a table; outputs of several atoms count as quantiles."""
    head = network.head
    assert isinstance(network.body, MLPBody)
    assert isinstance(head, QHead)
    features = table.body(network.body, table.obs)
    advantage = table.dense(head.advantage, features)
    value = None if head.value is None else table.dense(head.value, features)
    return QHeads(
        advantage_at=advantage.offset,
        advantage_row=advantage.stride,
        value_at=-1 if value is None else value.offset,
        value_row=0 if value is None else value.stride,
        actions=head.actions,
        support=np.zeros(head.atoms, np.float32),
        quantiles=int(head.atoms > 1),
    )
