"""What a policy network's outputs mean: a distribution over actions."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from torch import Tensor

from briskrl.core.types import Bools, Decision, Floats

NO_MASK = np.zeros((0, 0), np.bool_)
"""Tells kernels that every action is legal."""


class Distribution(Protocol):
    """The distributions that a network's outputs stand for."""

    outputs: int
    """Width of the policy head."""
    continuous: bool

    def sample(
        self, out: Floats, mask: Bools | None, rng: np.random.Generator, decision: Decision
    ) -> None:
        """Draw actions with their log probabilities for N environments; writes `decision`."""
        ...

    def evaluate(self, out: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Log probabilities of actions and entropies, both (B,) float32."""
        ...

    def mode(self, out: Tensor, mask: Tensor | None) -> Tensor:
        """The likeliest actions, shaped as the environment takes them."""
        ...
