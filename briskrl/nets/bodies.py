"""Dense and fully convolutional bodies, which map observations to features; input scaling.

Bodies for pictures are in `image_bodies`, the choice of a body in `body_choice`.

The features of a fully convolutional body are (B, C, H, W) with the channels last in memory: on a
CPU such convolutions are a fifth faster to train, and the head is one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from briskrl.core.spec import ArraySpec
from briskrl.core.types import Array

Activation = Literal["relu", "tanh"]

ACTIVATE_IN_PLACE = {"relu": torch.relu_, "tanh": torch.tanh_}


DILATIONS = (1, 2, 4, 8)
"""Of successive blocks of a fully convolutional body: few blocks then cover a whole board."""

MAX_DEVIATIONS = 10.0
"""Standardized observations are clipped here: a feature that never varied may suddenly vary."""


@dataclass(frozen=True, slots=True)
class BodyOptions:
    """The architecture of a body."""

    kind: str
    """auto, mlp, cnn, nature, fcn, or the address "module:Class" of a torch module."""
    widths: Sequence[int]
    channels: Sequence[int] | None
    """Of the convolutions; None for the default."""
    activation: Activation = "relu"
    layer_norm: bool = False
    """Layer normalization before every activation (Ba 2016)."""


class InputScaling(nn.Module):
    """Converts observations to float32: bytes of images scaled to 0..1, or standardized.

    Standardization starts as the identity; `set_moments` changes it.
    """

    mean: Tensor
    scale: Tensor
    byte_scale: Tensor

    def __init__(self, obs: ArraySpec, *, standardize: bool = False) -> None:
        super().__init__()
        self.standardize = standardize
        self.scales_parts = bool(obs.images) and len(obs.shape) == 1 and not standardize
        self.scales_bytes = obs.dtype == np.uint8 and not standardize and not self.scales_parts
        self.plain = obs.dtype == np.float32 and not standardize and not self.scales_parts
        if self.scales_parts:
            byte_scale = torch.ones(obs.shape)
            for image in obs.images:
                byte_scale[image.place] = 1 / 255
            self.register_buffer("byte_scale", byte_scale)
        if standardize:
            self.register_buffer("mean", torch.zeros(obs.shape))
            self.register_buffer("scale", torch.ones(obs.shape))

    def forward(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> (B, *obs) float32; the argument itself if nothing is to be done."""
        if self.plain:
            return obs
        if self.scales_bytes:
            return obs.to(torch.float32).mul_(1 / 255)
        if self.scales_parts:
            return obs.to(torch.float32) * self.byte_scale
        if not self.standardize:
            return obs.to(torch.float32)
        centered = obs.to(torch.float32) - self.mean
        return centered.mul_(self.scale).clamp_(-MAX_DEVIATIONS, MAX_DEVIATIONS)

    def set_moments(self, mean: Array, deviation: Array) -> None:
        """Standardize by this mean and standard deviation, both of the size of one observation."""
        self.mean.copy_(torch.from_numpy(mean.reshape(self.mean.shape)))
        self.scale.copy_(torch.from_numpy(1 / deviation.reshape(self.scale.shape)))


class MLPBody(nn.Module):
    """Fully connected layers; observations of any shape are flattened."""

    def __init__(
        self,
        inputs: int,
        widths: Sequence[int],
        activation: Activation = "relu",
        *,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        sizes = [inputs, *widths]
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(sizes))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths if layer_norm)
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
        for k, layer in enumerate(self.layers):
            hidden = layer(hidden)
            hidden = activate(self.norms[k](hidden) if len(self.norms) else hidden)
        return hidden


class FCNBody(nn.Module):
    """3x3 convolutions that keep the board's size, all but the first in residual blocks.

    Args:
        shape: (C, H, W) of the observations; the weights depend only on C.
        channels: Of every layer.
        activation: After every layer.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        channels: Sequence[int],
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        planes, height, width = shape
        self.cells = height * width
        self.features = channels[-1]
        self.activation: Activation = activation
        self.stem = nn.Conv2d(planes, channels[0], 3, padding=1)
        self.blocks = nn.ModuleList(
            ResidualBlock(before, after, dilation, activation)
            for (before, after), dilation in zip(pairwise(channels), cycle(DILATIONS), strict=False)
        )

    def forward(self, obs: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, features, H, W), for any H and W."""
        planes = obs.contiguous(memory_format=torch.channels_last)
        hidden: Tensor = ACTIVATE_IN_PLACE[self.activation](self.stem(planes))
        for block in self.blocks:
            hidden = block(hidden)
        return hidden


class ResidualBlock(nn.Module):
    """x + activation(convolution(x)); where widths differ, x goes through a 1x1 convolution."""

    def __init__(self, before: int, after: int, dilation: int, activation: Activation) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(before, after, 3, padding=dilation, dilation=dilation)
        self.around = nn.Conv2d(before, after, 1) if before != after else None
        self.activation: Activation = activation

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, before, H, W) -> (B, after, H, W)."""
        added: Tensor = ACTIVATE_IN_PLACE[self.activation](self.convolution(hidden))
        return added + (hidden if self.around is None else self.around(hidden))
