"""Network heads: features in, action values (or their distributions) out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

LinearFactory = Callable[[int, int], nn.Module]


class NoisyLinear(nn.Module):
    """A linear layer with learnt, factorised Gaussian noise on its weights (Fortunato 2018, 3b).

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
        out: Tensor = self.advantage(features)
        if self.value is None and self.atoms == 1:
            return out
        out = out.view(-1, self.actions, self.atoms)
        if self.value is not None:
            out = self.value(features).unsqueeze(1) + out - out.mean(1, keepdim=True)
        return out.squeeze(2) if self.atoms == 1 else out
