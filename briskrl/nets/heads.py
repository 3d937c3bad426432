"""Network heads, which map features to action values, their distributions or logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from briskrl.nets.bodies import ACTIVATE_IN_PLACE, Activation, MLPBody

LinearFactory = Callable[[int, int], nn.Module]


class NoisyLinear(nn.Module):
    """A linear layer with learned, factorized Gaussian noise on its weights (Fortunato 2018, 3b).

    In evaluation mode the noise is left out. Noise changes only when it is set.
    """

    weight_noise: Tensor
    bias_noise: Tensor

    def __init__(self, inputs: int, outputs: int, sigma: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        scale = sigma / inputs**0.5
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), scale))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), scale))
        self.register_buffer("weight_noise", torch.zeros(outputs, inputs))
        self.register_buffer("bias_noise", torch.zeros(outputs))

    def set_noise(self, noise: Tensor) -> None:
        """Use noise (inputs + outputs,) of the inputs and outputs."""
        inputs = self.weight.shape[1]
        torch.outer(noise[inputs:], noise[:inputs], out=self.weight_noise)
        self.bias_noise.copy_(noise[inputs:])

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, inputs) -> (B, outputs)."""
        if not self.training:
            return nn.functional.linear(hidden, self.weight, self.bias)
        weight = torch.addcmul(self.weight, self.weight_sigma, self.weight_noise)
        bias = torch.addcmul(self.bias, self.bias_sigma, self.bias_noise)
        return nn.functional.linear(hidden, weight, bias)


class QHead(nn.Module):
    """Action values (B, A), or logits of their distributions (B, A, atoms).

    The dueling form gives each of value and advantage a layer of its own and combines them as
    V + A - mean(A) (Wang 2016, equation 9).
    """

    def __init__(
        self, features: int, actions: int, atoms: int, *, dueling: bool, linear: LinearFactory
    ) -> None:
        super().__init__()
        self.actions = actions
        self.atoms = atoms
        self.advantage = linear(features, actions * atoms)
        self.value = linear(features, atoms) if dueling else None

    def forward(self, features: Tensor) -> Tensor:
        """(B, features) -> (B, A) or (B, A, atoms)."""
        value = None if self.value is None else self.value(features)
        return self.join(self.advantage(features), value)

    def join(self, advantage: Tensor, value: Tensor | None = None) -> Tensor:
        """Combine the outputs (B, A * atoms) and (B, atoms) of the layers, as `forward` does."""
        if value is None and self.atoms == 1:
            return advantage
        return _dueling(advantage.view(-1, self.actions, self.atoms), value)


class CellHead(nn.Module):
    """Outputs per cell, from its features and the mean features of the board."""

    def __init__(
        self, features: int, outputs: int, activation: Activation, linear: LinearFactory = nn.Linear
    ) -> None:
        super().__init__()
        self.context = nn.Linear(features, features)
        self.mix = nn.Linear(features, features)
        self.out = linear(features, outputs)
        self.activation: Activation = activation

    def forward(self, features: Tensor) -> Tensor:
        """(B, features, H, W) -> (B, H * W, outputs)."""
        cells = features.permute(0, 2, 3, 1).flatten(1, 2)
        context = self.context(cells.mean(1, keepdim=True))
        out: Tensor = self.out(ACTIVATE_IN_PLACE[self.activation](self.mix(cells) + context))
        return out


class BoardHead(nn.Module):
    """Outputs per board: dense layers on the mean of its features."""

    def __init__(
        self,
        features: int,
        widths: Sequence[int],
        outputs: int,
        activation: Activation,
        linear: LinearFactory = nn.Linear,
    ) -> None:
        super().__init__()
        self.mlp = MLPBody(features, widths, activation)
        self.out = linear(self.mlp.features, outputs)

    def forward(self, features: Tensor) -> Tensor:
        """(B, features, H, W) -> (B, outputs)."""
        out: Tensor = self.out(self.mlp(features.mean((2, 3))))
        return out


class CellQHead(nn.Module):
    """Action values (B, H * W), one action per cell, or logits of their distributions.

    In the dueling form the value comes from the mean features of the board; see QHead.
    """

    def __init__(
        self,
        features: int,
        atoms: int,
        *,
        widths: Sequence[int] | None,
        activation: Activation,
        linear: LinearFactory,
    ) -> None:
        """Set up the head.

        Args:
            features: Channels of the features.
            atoms: Of each distribution; 1 for values.
            widths: Hidden layers of the dueling value; None for no such value.
            activation: After hidden layers.
            linear: Builds the last layers.
        """
        super().__init__()
        self.advantage = CellHead(features, atoms, activation, linear)
        self.value = (
            None if widths is None else BoardHead(features, widths, atoms, activation, linear)
        )

    def forward(self, features: Tensor) -> Tensor:
        """(B, features, H, W) -> (B, H * W) or (B, H * W, atoms)."""
        value = None if self.value is None else self.value(features)
        return _dueling(self.advantage(features), value)


def _dueling(advantage: Tensor, value: Tensor | None) -> Tensor:
    """Combine advantages (B, A, Z) with values (B, Z), if there are any; (B, A) if Z is 1."""
    if value is not None:
        advantage = value.unsqueeze(1) + advantage - advantage.mean(1, keepdim=True)
    return advantage.squeeze(2) if advantage.shape[2] == 1 else advantage
