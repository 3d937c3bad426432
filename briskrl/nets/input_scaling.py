"""What happens to observations before the first layer of a network."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from briskrl.core.spec import ArraySpec
from briskrl.core.types import Array

MAX_DEVIATIONS = 10.0
"""Standardized observations are cut off here: a feature that never varied may suddenly."""


class InputScaling(nn.Module):
    """Observations as float32: bytes scaled to 0..1, anything standardized if asked for.

    Standardization starts as the identity; `set_moments` changes it.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, obs: ArraySpec, *, standardize: bool = False) -> None:
        super().__init__()
        self.standardize = standardize
        self.scales_bytes = obs.dtype == np.uint8 and not standardize
        self.plain = obs.dtype == np.float32 and not standardize
        if standardize:
            self.register_buffer("mean", torch.zeros(obs.shape))
            self.register_buffer("scale", torch.ones(obs.shape))

    def forward(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> (B, *obs) float32; the argument itself if there is nothing to do."""
        if self.plain:
            return obs
        if self.scales_bytes:
            return obs.to(torch.float32).mul_(1 / 255)
        if not self.standardize:
            return obs.to(torch.float32)
        centred = obs.to(torch.float32) - self.mean
        return centred.mul_(self.scale).clamp_(-MAX_DEVIATIONS, MAX_DEVIATIONS)

    def set_moments(self, mean: Array, deviation: Array) -> None:
        """Standardize by this mean and deviation, both of one observation's size."""
        self.mean.copy_(torch.from_numpy(mean.reshape(self.mean.shape)))
        self.scale.copy_(torch.from_numpy(1 / deviation.reshape(self.scale.shape)))
