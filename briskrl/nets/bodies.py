"""Network bodies: observations in, features out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class MLPBody(nn.Module):
    """Fully connected layers with ReLU; observations of any shape are flattened."""

    def __init__(self, inputs: int, widths: Sequence[int]) -> None:
        super().__init__()
        sizes = [inputs, *widths]
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(sizes))
        self.features = sizes[-1]

    def forward(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> (B, features)."""
        hidden = obs if obs.dim() == 2 else obs.flatten(1)
        for layer in self.layers:
            hidden = torch.relu_(layer(hidden))
        return hidden


class CNNBody(nn.Module):
    """3x3 convolutions that keep the board's size, then fully connected layers.

    Boards are small and every cell matters, so nothing is pooled or strided away.
    """

    def __init__(
        self, shape: tuple[int, int, int], channels: Sequence[int], widths: Sequence[int]
    ) -> None:
        super().__init__()
        planes, height, width = shape
        sizes = [planes, *channels]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 3, padding=1) for before, after in pairwise(sizes)
        )
        self.mlp = MLPBody(sizes[-1] * height * width, widths)
        self.features = self.mlp.features

    def forward(self, obs: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, features)."""
        hidden = obs
        for convolution in self.convolutions:
            hidden = torch.relu_(convolution(hidden))
        features: Tensor = self.mlp(hidden)
        return features
