"""Convolutional bodies for pictures, boards and observations with images among their parts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec
from briskrl.nets.bodies import ACTIVATE_IN_PLACE, Activation, MLPBody

CNN_CHANNELS = (16, 32)
NATURE_CHANNELS = (32, 64, 64)
"""Defaults of the channels of plain and of strided convolutions."""
NATURE_LAYERS = ((8, 4), (4, 2), (3, 1))
"""Kernel and stride of the convolutions of Mnih (2015), for pictures."""
NATURE_SIDE = 36
"""Smallest side of pictures that these convolutions can be applied to."""


class CNNBody(nn.Module):
    """Convolutions, then fully connected layers.

    By default the convolutions are 3x3 and keep the board's size: boards are small and every cell
    matters, so nothing is pooled or strided away. Strided ones are those of Mnih (2015), for
    pictures.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        channels: Sequence[int],
        widths: Sequence[int],
        activation: Activation = "relu",
        *,
        strided: bool = False,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        encoder = Convolutions(shape, channels, activation, strided=strided, layer_norm=layer_norm)
        # The layers themselves, so that parameters have the names of saved networks.
        self.convolutions, self.norms, self.cells = encoder.layers, encoder.norms, encoder.cells
        self.mlp = MLPBody(encoder.outputs, widths, activation, layer_norm=layer_norm)
        self.features = self.mlp.features

    def forward(self, obs: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, features)."""
        hidden = _convolve(obs, self.convolutions, self.norms, self.mlp.activation)
        features: Tensor = self.mlp(hidden)
        return features


class Convolutions(nn.Module):
    """Convolutions with an activation after each; see CNNBody.

    Raises:
        ConfigError: The image is too small for strided convolutions.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        channels: Sequence[int],
        activation: Activation,
        *,
        strided: bool,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        planes, height, width = shape
        self.activation: Activation = activation
        self.layers = nn.ModuleList()
        self.cells: list[int] = []
        """Of the outputs of every layer."""
        for number, wide in enumerate(channels):
            kernel, stride = NATURE_LAYERS[number] if strided else (3, 1)
            padding = 0 if strided else 1
            self.layers.append(nn.Conv2d(planes, wide, kernel, stride, padding))
            height, width = (
                (side + 2 * padding - kernel) // stride + 1 for side in (height, width)
            )
            if min(height, width) < 1:
                raise ConfigError(
                    f"An image of {shape[1]}x{shape[2]} is too small for a nature body, which "
                    f"needs {NATURE_SIDE}x{NATURE_SIDE}. Use --body cnn."
                )
            planes = wide
            self.cells.append(height * width)
        # One group is a layer normalization over all channels and cells, with a gain per channel.
        self.norms = nn.ModuleList(nn.GroupNorm(1, wide) for wide in channels if layer_norm)
        self.outputs = planes * height * width

    def forward(self, obs: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, outputs)."""
        return _convolve(obs, self.layers, self.norms, self.activation).flatten(1)


def _convolve(
    hidden: Tensor, layers: nn.ModuleList, norms: nn.ModuleList, activation: Activation
) -> Tensor:
    activate = ACTIVATE_IN_PLACE[activation]
    for k, layer in enumerate(layers):
        hidden = layer(hidden)
        hidden = activate(norms[k](hidden) if len(norms) else hidden)
    return hidden


class MultiInputBody(nn.Module):
    """Convolutions for every image of a vector; their outputs and the other elements are one input.

    Args:
        obs: A vector with images among its elements.
        channels: Of the convolutions; None for the default of each image's size.
        widths: Of the fully connected layers.
        activation: After every layer.
        strided: Whether convolutions are strided; None leaves it to the size of each image.
        layer_norm: Layer normalization before every activation.
    """

    def __init__(
        self,
        obs: ArraySpec,
        channels: Sequence[int] | None,
        widths: Sequence[int],
        activation: Activation = "relu",
        *,
        strided: bool | None = None,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.images = obs.images
        self.encoders = nn.ModuleList()
        outputs, rest, begin = 0, [], 0
        for image in obs.images:
            strides = is_large(image.shape) if strided is None else strided
            wide = channels or (NATURE_CHANNELS if strides else CNN_CHANNELS)
            encoder = Convolutions(
                image.shape, wide, activation, strided=strides, layer_norm=layer_norm
            )
            self.encoders.append(encoder)
            outputs += encoder.outputs
            rest.append(slice(begin, image.place.start))
            begin = image.place.stop
        self.rest = [part for part in (*rest, slice(begin, obs.size)) if part.start < part.stop]
        outputs += sum(part.stop - part.start for part in self.rest)
        self.mlp = MLPBody(outputs, widths, activation, layer_norm=layer_norm)
        self.features = self.mlp.features

    def forward(self, obs: Tensor) -> Tensor:
        """(B, F) -> (B, features)."""
        parts = [
            encoder(obs[:, image.place].reshape(-1, *image.shape))
            for image, encoder in zip(self.images, self.encoders, strict=True)
        ]
        features: Tensor = self.mlp(torch.cat([*parts, *(obs[:, part] for part in self.rest)], 1))
        return features


def is_large(shape: tuple[int, ...]) -> bool:
    """Whether strided convolutions suit an image (C, H, W)."""
    return min(shape[1:]) >= NATURE_SIDE
