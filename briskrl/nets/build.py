"""Networks from an observation spec and a few options; the only place that knows both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec
from briskrl.nets.bodies import CNNBody, MLPBody
from briskrl.nets.heads import NoisyLinear, QHead


@dataclass(frozen=True, slots=True)
class QOptions:
    """What a value network is made of."""

    body: Literal["auto", "mlp", "cnn"]
    widths: Sequence[int]
    channels: Sequence[int]
    dueling: bool
    noisy_sigma: float | None
    """Initial noise of noisy heads; None for plain ones."""
    atoms: int


class QNetwork(nn.Module):
    """Observations in, action values or their distributions out; scales uint8 planes to 0..1."""

    def __init__(self, obs: ArraySpec, actions: int, options: QOptions) -> None:
        super().__init__()
        self.scales_input = obs.dtype == np.uint8
        self.body = _build_body(obs, options)
        linear = (
            nn.Linear
            if options.noisy_sigma is None
            else partial(NoisyLinear, sigma=options.noisy_sigma)
        )
        self.head = QHead(
            self.body.features, actions, options.atoms, dueling=options.dueling, linear=linear
        )
        self._noisy = [layer for layer in self.modules() if isinstance(layer, NoisyLinear)]

    def forward(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> (B, A) or (B, A, atoms)."""
        if self.scales_input:
            obs = obs.to(torch.float32).mul_(1 / 255)
        out: Tensor = self.head(self.body(obs))
        return out

    def resample(self, generator: torch.Generator) -> None:
        """Draw new noise for noisy layers, if there are any."""
        for layer in self._noisy:
            layer.resample(generator)


def build_q_network(
    obs: ArraySpec, actions: int, options: QOptions, generator: torch.Generator
) -> QNetwork:
    """A value network with weights drawn from `generator` alone."""
    network = QNetwork(obs, actions, options)
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | NoisyLinear):
            # Torch's own rule for linear and convolution layers: uniform in +-1/sqrt(fan_in).
            bound = layer.weight[0].numel() ** -0.5
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            assert layer.bias is not None
            nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return network


def _build_body(obs: ArraySpec, options: QOptions) -> MLPBody | CNNBody:
    planes = len(obs.shape) == 3
    if options.body == "cnn" and not planes:
        raise ConfigError(
            f"A cnn body needs planes (C, H, W), but observations have shape {obs.shape}. "
            "Use --body mlp or an observation mode with planes."
        )
    if options.body == "mlp" or not planes:
        return MLPBody(obs.size, options.widths)
    channels, height, width = obs.shape
    return CNNBody((channels, height, width), options.channels, options.widths)
