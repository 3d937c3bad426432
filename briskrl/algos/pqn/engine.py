"""The interface of PQN engines, and the network and optimizer they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from briskrl.algos.pqn.config import PQNConfig
from briskrl.core.types import Array, Bools, Floats, Ints, Minibatch
from briskrl.nets.flat_parameters import FlatParameters
from briskrl.nets.q_network import QNetwork
from briskrl.nets.safe_adam import SafeAdam


@dataclass(slots=True)
class PQNModel:
    """Network and optimizer, shared by all engines."""

    config: PQNConfig
    network: QNetwork
    flat: FlatParameters
    """The parameters and gradients of the network as one tensor each."""
    optimizer: SafeAdam


class PQNEngine(Protocol):
    """Acts, estimates values and learns with a PQNModel."""

    def refresh(self) -> None:
        """Read the network again after something else has changed it."""
        ...

    def act(self, obs: Array, mask: Bools | None, epsilon: float, out: Ints) -> None:
        """Write epsilon-greedy actions (N,) for observations (N, *obs)."""
        ...

    def values(self, obs: Array, mask: Bools | None, out: Floats) -> None:
        """Write the Q-value of the best legal action (M,) for observations (M, *obs)."""
        ...

    def compute(self, batch: Minibatch) -> None:
        """Compute the gradient of the mean loss of the taken actions' Q-values."""
        ...

    def step(self, lr: float) -> None:
        """Apply the gradient with Adam.

        Raises:
            DivergedError: Several updates in a row were not finite.
        """
        ...

    def drain(self) -> dict[str, float]:
        """The mean loss and Q-value since the last call, if there was an update."""
        ...
