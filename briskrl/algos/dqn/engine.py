"""The interface of DQN engines, and the networks and optimizer they share."""

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
    """Online and target network with their optimizer, shared by all engines."""

    config: DQNConfig
    online: QNetwork
    target: QNetwork
    online_flat: FlatParameters
    target_flat: FlatParameters
    optimizer: SafeAdam
    noise: torch.Generator
    """Random generator of noisy layers in updates."""
    acting_noise: torch.Generator
    """Random generator of noisy layers in acting."""
    support: torch.Tensor | None = None
    """(Z,) returns of the atoms of a categorical distribution; ValueRange may change it in
    place."""
    taken: int | None = None
    """Number k of actions taken at once (SubsetSpec); None for a single action."""

    def refresh_target(self, updates: int) -> None:
        """Move the target network if that is due after `updates` updates."""
        config = self.config
        if config.target_unit == "updates" and updates % config.target_every == 0:
            self.move_target()

    def copy_to_target(self) -> None:
        """Make the target network equal to the online network."""
        self.target_flat.values.copy_(self.online_flat.values)

    def move_target(self) -> None:
        """Move the target network the share `tau` of the way to the online network."""
        if self.config.tau == 1:
            self.copy_to_target()
        else:
            self.target_flat.values.lerp_(self.online_flat.values, self.config.tau)


class NoisePeriod:
    """Counts steps, so that acting noise stays the same for a round: exploration is consistent.

    Args:
        period: Steps of a round.
    """

    def __init__(self, period: int) -> None:
        self._period = period
        self._steps = 0

    def restart(self) -> None:
        """The next step begins a round."""
        self._steps = 0

    def begins(self) -> bool:
        """Count a step; returns whether it begins a round."""
        first = self._steps == 0
        self._steps = (self._steps + 1) % self._period
        return first


class DQNEngine(Protocol):
    """Acts and learns with a DQNModel."""

    def refresh(self) -> None:
        """Read both networks again after something else has changed them."""
        ...

    def refresh_target(self) -> None:
        """Read the target network again after something else has changed it."""
        ...

    def act(self, obs: Array, mask: Bools | None, epsilon: float, out: Ints) -> None:
        """Write epsilon-greedy actions (N,) or (N, k) for observations (N, *obs)."""
        ...

    def update(self, batch: Batch, updates: int, before: int) -> Floats:
        """Do the first `updates` updates of a batch, after `before` earlier ones.

        Returns:
            (K, B) absolute TD errors, see OffPolicyAlgorithm.update.
        """
        ...

    def drain(self) -> dict[str, float]:
        """The mean loss since the last call, if there was one."""
        ...
