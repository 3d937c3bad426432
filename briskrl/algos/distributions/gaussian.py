"""Continuous actions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from briskrl.algos.distributions.kernels.gaussian import HALF_LOG_TWO_PI, sample_gaussian
from briskrl.core.types import Bools, Decision, Floats


class Gaussian:
    """Independent normal distributions; outputs are D means and D log deviations."""

    continuous = True

    def __init__(self, size: int) -> None:
        self.outputs = size
        self._noise = np.zeros((0, size))

    def sample(
        self, out: Floats, mask: Bools | None, rng: np.random.Generator, decision: Decision
    ) -> None:
        """See Distribution; there are no masks."""
        if len(self._noise) < len(out):
            self._noise = np.zeros((len(out), self.outputs))
        noise = self._noise[: len(out)]
        rng.standard_normal(out=noise)
        sample_gaussian(out, noise, decision.action, decision.log_prob)

    def evaluate(self, out: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """See Distribution; there are no masks."""
        mean, log_std = torch.split(out.float(), self.outputs, 1)
        z = (action - mean) * torch.exp(-log_std)
        log_prob = -(0.5 * z.square() + log_std + HALF_LOG_TWO_PI).sum(1)
        entropy = (log_std + 0.5 + HALF_LOG_TWO_PI).sum(1)
        return log_prob, entropy

    def mode(self, out: Tensor, mask: Tensor | None) -> Tensor:
        """See Distribution."""
        return out[:, : self.outputs]
