"""Q-networks, optionally dueling, noisy or distributional."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from briskrl.core.spec import ArraySpec
from briskrl.nets.bodies import BodyOptions, FCNBody, InputScaling
from briskrl.nets.body_choice import build_body
from briskrl.nets.heads import CellQHead, NoisyLinear, QHead


@dataclass(frozen=True, slots=True)
class QOptions:
    """The architecture of a Q-network."""

    body: BodyOptions
    dueling: bool
    noisy_sigma: float | None
    """Initial noise of noisy layers; None for plain layers."""
    atoms: int
    standardize: bool = False
    """Observations are standardized first; see InputScaling."""


class QNetwork(nn.Module):
    """Maps observations to action values or their distributions; scales uint8 planes to 0..1."""

    def __init__(self, obs: ArraySpec, actions: int, options: QOptions) -> None:
        super().__init__()
        self.inputs = InputScaling(obs, standardize=options.standardize)
        self.body = build_body(obs, options.body, actions)
        self.head = self._build_head(actions, options)
        self._noisy = [layer for layer in self.modules() if isinstance(layer, NoisyLinear)]

    def _build_head(self, actions: int, options: QOptions) -> QHead | CellQHead:
        body, atoms = self.body, options.atoms
        linear = (
            nn.Linear
            if options.noisy_sigma is None
            else partial(NoisyLinear, sigma=options.noisy_sigma)
        )
        if isinstance(body, FCNBody):
            return CellQHead(
                body.features,
                atoms,
                widths=options.body.widths if options.dueling else None,
                activation=body.activation,
                linear=linear,
            )
        return QHead(body.features, actions, atoms, dueling=options.dueling, linear=linear)

    def forward(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> (B, A) or (B, A, atoms)."""
        out: Tensor = self.head(self.body(obs if self.inputs.plain else self.inputs(obs)))
        return out

    def draw_noise(self, generator: torch.Generator) -> Tensor:
        """New noise for all noisy layers in one tensor; empty if there are none."""
        size = sum(sum(layer.weight.shape) for layer in self._noisy)
        noise = torch.randn(size, generator=generator, device=generator.device)
        return noise.sign() * noise.abs().sqrt_()

    def set_noise(self, noise: Tensor) -> None:
        """Use the result of `draw_noise`."""
        sizes = [sum(layer.weight.shape) for layer in self._noisy]
        for layer, part in zip(self._noisy, torch.split(noise, sizes), strict=True):
            layer.set_noise(part)


def build_q_network(
    obs: ArraySpec, actions: int, options: QOptions, generator: torch.Generator
) -> QNetwork:
    """A Q-network with weights drawn from `generator` only."""
    network = QNetwork(obs, actions, options)
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | NoisyLinear):
            # Torch's default for linear and convolutional layers: uniform in +-1/sqrt(fan_in).
            bound = layer.weight[0].numel() ** -0.5
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            if layer.bias is not None:
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return network
