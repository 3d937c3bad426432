"""Network bodies: observations in, features out.

The features of a fully convolutional body stay on the board, (B, C, H, W), with the channels last
in memory: on a CPU such convolutions are a fifth faster to train, and what follows is one product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec

Activation = Literal["relu", "tanh"]

ACTIVATE_IN_PLACE = {"relu": torch.relu_, "tanh": torch.tanh_}

CNN_CHANNELS = (16, 32)
FCN_CHANNELS = (16,) * 6
"""What bodies have unless told otherwise."""

DILATIONS = (1, 2, 4, 8)
"""Of the blocks of a fully convolutional body, in turn: few of them then reach across a board."""


@dataclass(frozen=True, slots=True)
class BodyOptions:
    """What a body is made of."""

    kind: Literal["auto", "mlp", "cnn", "fcn"]
    widths: Sequence[int]
    channels: Sequence[int] | None
    """Of the convolutions; None for the body's own."""
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


class FCNBody(nn.Module):
    """3x3 convolutions that keep the board's size, each but the first with a way around it.

    Args:
        shape: (C, H, W) of the observations; the weights depend on C alone.
        channels: Of every layer.
        activation: What follows every layer.
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
    """x + activation(convolution(x)); where widths differ, x goes through a dense layer."""

    def __init__(self, before: int, after: int, dilation: int, activation: Activation) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(before, after, 3, padding=dilation, dilation=dilation)
        self.around = nn.Conv2d(before, after, 1) if before != after else None
        self.activation: Activation = activation

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, before, H, W) -> (B, after, H, W)."""
        added: Tensor = ACTIVATE_IN_PLACE[self.activation](self.convolution(hidden))
        return added + (hidden if self.around is None else self.around(hidden))


Body = MLPBody | CNNBody | FCNBody


def build_body(obs: ArraySpec, options: BodyOptions, outputs: int) -> Body:
    """The body for these observations; weights are torch's defaults, for the caller to draw.

    Args:
        obs: What goes in.
        options: What it is made of; auto takes an fcn where there is one output per cell, a cnn
            for other planes, and an mlp for vectors.
        outputs: How many outputs its head is to have.

    Raises:
        ConfigError: The body asked for does not fit the observations or the outputs.
    """
    kind = _kind(obs, options.kind, outputs)
    if kind == "mlp":
        return MLPBody(obs.size, options.widths, options.activation)
    planes, height, width = obs.shape
    shape = (planes, height, width)
    if kind == "fcn":
        return FCNBody(shape, options.channels or FCN_CHANNELS, options.activation)
    channels = options.channels or CNN_CHANNELS
    return CNNBody(shape, channels, options.widths, options.activation)


def _kind(
    obs: ArraySpec, asked: Literal["auto", "mlp", "cnn", "fcn"], outputs: int
) -> Literal["mlp", "cnn", "fcn"]:
    planes = len(obs.shape) == 3
    per_cell = planes and outputs == obs.shape[1] * obs.shape[2]
    if asked == "auto":
        return "fcn" if per_cell else "cnn" if planes else "mlp"
    if asked != "mlp" and not planes:
        raise ConfigError(
            f"A {asked} body needs planes (C, H, W), but observations have shape {obs.shape}. "
            "Use --body mlp or an observation mode with planes."
        )
    if asked == "fcn" and not per_cell:
        raise ConfigError(
            f"A fcn body gives one output per cell, but there are {outputs} for planes of "
            f"{obs.shape[1]}x{obs.shape[2]} cells. Use --body cnn."
        )
    return asked
