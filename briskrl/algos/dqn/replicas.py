"""What DQN does so that several replicas learn together: they average their networks.

Every replica has a part of the replay buffer, and takes an equal part of every batch from it. It
does all updates, on its own, and after every `AVERAGE_EVERY` of them online network, target network
and the moments of Adam become the means over the replicas. An update of a small network takes less
time than an exchange, so averaging every gradient would make two replicas slower than one process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from briskrl.algos.components import Replication
from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.dqn.engine import DQNModel
from briskrl.core.errors import ConfigError
from briskrl.nets.flat_parameters import digest
from briskrl.nets.replica_group import ReplicaGroup

AVERAGE_EVERY = 16
"""Updates between two averages."""


def part_of(config: DQNConfig, replicas: int) -> DQNConfig:
    """The settings of one of several replicas.

    Raises:
        ConfigError: There is less than one transition for each of them.
    """
    if config.batch_size < replicas:
        raise ConfigError(
            f"Each of {replicas} replicas needs a transition of every batch, but batch_size is "
            f"{config.batch_size}."
        )
    return replace(
        config,
        batch_size=config.batch_size // replicas,
        # Rounded up, so that memories have as many rows with any number of replicas.
        buffer_size=-(-config.buffer_size // replicas),
        priority_beta_steps=max(1, config.priority_beta_steps // replicas),
    )


def replication(model: DQNModel, group: ReplicaGroup, refresh: Callable[[], None]) -> Replication:
    """How the replicas of a model are averaged; `refresh` is called afterwards."""
    adam = model.optimizer.adam
    tensors = (model.online_flat.values, model.target_flat.values, adam.mean, adam.variance)
    # One exchange for all of them.
    room = torch.zeros_like(torch.cat(tensors))
    size = len(tensors[0])
    parts = [room[number * size : (number + 1) * size] for number in range(len(tensors))]

    @torch.no_grad()
    def average() -> None:
        for part, tensor in zip(parts, tensors, strict=True):
            part.copy_(tensor)
        group.average(room)
        for part, tensor in zip(parts, tensors, strict=True):
            tensor.copy_(part)
        refresh()

    return Replication(
        digest=lambda: digest(model.online_flat), average_every=AVERAGE_EVERY, average=average
    )
