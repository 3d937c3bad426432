"""Network bodies: observations in, features out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec

Activation = Literal["relu", "tanh"]

ACTIVATE_IN_PLACE = {"relu": torch.relu_, "tanh": torch.tanh_}


@dataclass(frozen=True, slots=True)
class BodyOptions:
    """What a body is made of."""

    kind: Literal["auto", "mlp", "cnn"]
    widths: Sequence[int]
    channels: Sequence[int]
    activation: Activation = "relu"


class MLPBody(nn.Module):
    """Fully connected layers; observations of any shape are flattened."""

    def __init__(self, inputs: int, widths: Sequence[int], activation: Activation = "relu") -> None:
        super().__init__()
        sizes = [inputs, *widths]
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(sizes))
        self.features = sizes[-1]
        self.activation: Activation = activation

    @property
    def linears(self) -> list[nn.Linear]:
        """The layers in order."""
        return [layer for layer in self.layers if isinstance(layer, nn.Linear)]

    def forward(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> (B, features)."""
        activate = ACTIVATE_IN_PLACE[self.activation]
        hidden = obs if obs.dim() == 2 else obs.flatten(1)
        for layer in self.layers:
            hidden = activate(layer(hidden))
        return hidden


class CNNBody(nn.Module):
    """3x3 convolutions that keep the board's size, then fully connected layers.

    Boards are small and every cell matters, so nothing is pooled or strided away.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        channels: Sequence[int],
        widths: Sequence[int],
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        planes, height, width = shape
        sizes = [planes, *channels]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 3, padding=1) for before, after in pairwise(sizes)
        )
        self.mlp = MLPBody(sizes[-1] * height * width, widths, activation)
        self.features = self.mlp.features

    def forward(self, obs: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, features)."""
        activate = ACTIVATE_IN_PLACE[self.mlp.activation]
        hidden = obs
        for convolution in self.convolutions:
            hidden = activate(convolution(hidden))
        features: Tensor = self.mlp(hidden)
        return features


def build_body(obs: ArraySpec, options: BodyOptions) -> MLPBody | CNNBody:
    """The body for these observations; weights are torch's defaults, for the caller to draw.

    Raises:
        ConfigError: Convolutions were asked for, but there are no planes.
    """
    planes = len(obs.shape) == 3
    if options.kind == "cnn" and not planes:
        raise ConfigError(
            f"A cnn body needs planes (C, H, W), but observations have shape {obs.shape}. "
            "Use --body mlp or an observation mode with planes."
        )
    if options.kind == "mlp" or not planes:
        return MLPBody(obs.size, options.widths, options.activation)
    channels, height, width = obs.shape
    return CNNBody((channels, height, width), options.channels, options.widths, options.activation)
