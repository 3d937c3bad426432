"""What computes value learning: the engines' contract, and the model they work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from briskrl.algos.dqn.config import DQNConfig
from briskrl.core.types import Array, Batch, Bools, Floats, Ints
from briskrl.nets.flat_parameters import FlatParameters
from briskrl.nets.q_network import QNetwork
from briskrl.nets.safe_adam import SafeAdam


@dataclass(slots=True)
class DQNModel:
    """Networks and optimizer of value learning, whoever computes with them."""

    config: DQNConfig
    online: QNetwork
    target: QNetwork
    online_flat: FlatParameters
    target_flat: FlatParameters
    optimizer: SafeAdam
    noise: torch.Generator
    """Where noisy layers have their noise from while they learn."""
    acting_noise: torch.Generator
    """And while they act."""
    taken: int | None = None
    """How many actions of one set are taken at once; None for a single one."""

    def refresh_target(self, updates: int) -> None:
        """Copy the online network into the target network if it is time after so many updates."""
        config = self.config
        if config.target_unit == "updates" and updates % config.target_every == 0:
            self.copy_to_target()

    def copy_to_target(self) -> None:
        """Make the target network equal to the online network."""
        self.target_flat.values.copy_(self.online_flat.values)


class DQNEngine(Protocol):
    """Acts and learns with the model it was built on."""

    def refresh(self) -> None:
        """Take notice that somebody else has changed the networks."""
        ...

    def refresh_target(self) -> None:
        """Take notice that somebody else has changed the target network alone."""
        ...

    def act(self, obs: Array, mask: Bools | None, epsilon: float, out: Ints) -> None:
        """Write actions (N,): greedy ones, random legal ones for a share epsilon."""
        ...

    def update(self, batch: Batch, updates: int, before: int) -> Floats:
        """Do the first `updates` updates of a batch; `before` have been done already.

        Returns:
            (K, B) sizes of the errors, see OffPolicy.
        """
        ...

    def drain(self) -> dict[str, float]:
        """The mean loss since the last call, if there was one."""
        ...
