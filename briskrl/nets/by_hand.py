"""Gradients of plain MLPs without autograd.

A small network's update is mostly the cost of recording and replaying a graph, not of arithmetic.
For a stack of linear layers with ReLU between them the gradient is two products a layer, written
straight into the flat buffer. Measured for 11-128-128-3 and batches of 64: 210 us an update against
360 us with autograd.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from briskrl.nets.bodies import MLPBody
from briskrl.nets.build import QNetwork


class HandGradient:
    """Forward and backward of a stack of linear layers, in buffers made once per batch size.

    The network's parameters must have gradients to write to (see FlatParameters).
    """

    def __init__(self, layers: list[nn.Linear]) -> None:
        # Detached views share their memory with the parameters.
        self._weights = [layer.weight.detach() for layer in layers]
        self._biases = [layer.bias.detach() for layer in layers]
        self._weight_gradients = [_gradient(layer.weight) for layer in layers]
        self._bias_gradients = [_gradient(layer.bias) for layer in layers]
        self._inputs: list[Tensor] = []
        self._outputs: list[Tensor] = []
        self._slopes: list[Tensor] = []

    @classmethod
    def of(cls, network: QNetwork) -> HandGradient | None:
        """The gradient of a network that is such a stack on the CPU, or None if it is not."""
        head = network.head.advantage
        plain = (
            isinstance(network.body, MLPBody)
            and isinstance(head, nn.Linear)
            and network.head.value is None
            and network.head.atoms == 1
            and not network.scales_input
            and head.weight.device.type == "cpu"
        )
        if not plain:
            return None
        assert isinstance(network.body, MLPBody)
        assert isinstance(head, nn.Linear)
        hidden = [layer for layer in network.body.layers if isinstance(layer, nn.Linear)]
        return cls([*hidden, head])

    @torch.no_grad()
    def forward(self, obs: Tensor) -> Tensor:
        """(B, inputs) -> (B, outputs); the result is valid until the next call."""
        hidden = obs if obs.dim() == 2 else obs.flatten(1)
        if not self._outputs or len(self._outputs[0]) != len(hidden):
            self._allocate(len(hidden))
        last = len(self._weights) - 1
        self._inputs.clear()
        for i, (weight, bias) in enumerate(zip(self._weights, self._biases, strict=True)):
            self._inputs.append(hidden)
            hidden = torch.addmm(bias, hidden, weight.t(), out=self._outputs[i])
            if i < last:
                hidden.relu_()
        return hidden

    @torch.no_grad()
    def backward(self, slope: Tensor) -> None:
        """Overwrite the parameters' gradients, given d loss / d outputs (B, outputs).

        With y = x W' + b: dW = dy' x, db = sum dy, dx = dy W, and ReLU passes dx where x > 0.
        """
        for i in range(len(self._weights) - 1, -1, -1):
            inputs = self._inputs[i]
            torch.mm(slope.t(), inputs, out=self._weight_gradients[i])
            torch.sum(slope, 0, out=self._bias_gradients[i])
            if i > 0:
                slope = torch.mm(slope, self._weights[i], out=self._slopes[i - 1])
                slope.mul_(inputs > 0)

    def _allocate(self, rows: int) -> None:
        widths = [len(bias) for bias in self._biases]
        self._outputs = [torch.zeros(rows, width) for width in widths]
        self._slopes = [torch.zeros(rows, width) for width in widths[:-1]]


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
