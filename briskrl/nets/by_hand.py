"""Gradients of plain MLPs without autograd.

A small network's update is mostly the cost of recording and replaying a graph, not of arithmetic.
For a stack of linear layers with ReLU or tanh between them the gradient is two products a layer,
written straight into the flat buffer. Measured for 11-128-128-3 and batches of 64: 210 us an update
against 360 us with autograd.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from briskrl.core.types import Floats
from briskrl.nets.actor_critic import ActorCritic
from briskrl.nets.bodies import Activation, MLPBody
from briskrl.nets.build import QNetwork
from briskrl.nets.kernels import tanh_in_place

_tanh_backward = torch.ops.aten.tanh_backward.grad_input

_NARROW = 16
"""Inputs below which MKL is several times faster at x' dy than at dy' x (measured)."""


class HandGradient:
    """Forward and backward of a stack of linear layers, in buffers that only ever grow.

    The network's parameters must have gradients to write to (see FlatParameters).
    """

    def __init__(
        self,
        layers: Sequence[nn.Linear],
        activation: Activation = "relu",
        *,
        ends_activated: bool = False,
        passes_on: bool = False,
        turns_narrow: bool = False,
    ) -> None:
        """Set up the stack.

        Args:
            layers: In order; the activation stands between them.
            activation: Which one.
            ends_activated: It stands after the last one, too.
            passes_on: `backward` returns the slope of the stack's inputs as well.
            turns_narrow: Compute the weight gradient of few inputs transposed: faster, and rounded
                differently.
        """
        # Detached views share their memory with the parameters.
        self._weights = [layer.weight.detach() for layer in layers]
        self._transposed = [weight.t() for weight in self._weights]
        self._biases = [layer.bias.detach() for layer in layers]
        self._weight_gradients = [_gradient(layer.weight) for layer in layers]
        self._bias_gradients = [_gradient(layer.bias) for layer in layers]
        self._activation = activation
        self._activated = len(layers) if ends_activated else len(layers) - 1
        self._passes_on = passes_on
        inputs = self._weights[0].shape[1]
        narrow = turns_narrow and inputs < _NARROW
        self._turned = torch.zeros(inputs, len(self._biases[0])) if narrow else None
        self._buffers: list[Tensor] = []
        self._inputs: list[Tensor] = []
        self._outputs: list[Tensor] = []
        self._slopes: list[Tensor] = []
        self._flat_outputs: list[Floats] = []
        self._rows = -1

    @classmethod
    def of(cls, network: QNetwork) -> HandGradient | None:
        """The gradient of a network that is such a stack on the CPU, or None if it is not."""
        head = network.head.advantage
        plain = (
            isinstance(network.body, MLPBody)
            and isinstance(head, nn.Linear)
            and network.head.value is None
            and network.head.atoms == 1
            and network.inputs.plain
            and head.weight.device.type == "cpu"
        )
        if not plain:
            return None
        assert isinstance(network.body, MLPBody)
        assert isinstance(head, nn.Linear)
        return cls([*network.body.linears, head], network.body.activation)

    @torch.no_grad()
    def forward(self, obs: Tensor) -> Tensor:
        """(B, inputs) -> (B, outputs); the result is valid until the next call."""
        hidden = obs if obs.dim() == 2 else obs.flatten(1)
        if len(hidden) != self._rows:
            self._resize(len(hidden))
        self._inputs.clear()
        for i, weight in enumerate(self._transposed):
            self._inputs.append(hidden)
            hidden = torch.addmm(self._biases[i], hidden, weight, out=self._outputs[i])
            if i < self._activated:
                if self._activation == "relu":
                    hidden.relu_()
                else:
                    tanh_in_place(self._flat_outputs[i])
        return hidden

    @torch.no_grad()
    def backward(self, slope: Tensor) -> Tensor:
        """Overwrite the parameters' gradients, given d loss / d outputs (B, outputs).

        With y = x W' + b: dW = dy' x, db = sum dy, dx = dy W. ReLU passes dx where x > 0, tanh
        passes dx (1 - x^2), both told from their results.

        Returns:
            d loss / d inputs (B, inputs) if the stack passes it on; valid until the next call.
        """
        if self._activated == len(self._weights):
            slope = self._through_activation(slope, self._outputs[-1])
        for i in range(len(self._weights) - 1, -1, -1):
            inputs = self._inputs[i]
            if i == 0 and self._turned is not None:
                torch.mm(inputs.t(), slope, out=self._turned)
                self._weight_gradients[0].copy_(self._turned.t())
            else:
                torch.mm(slope.t(), inputs, out=self._weight_gradients[i])
            torch.sum(slope, 0, out=self._bias_gradients[i])
            if i > 0 or self._passes_on:
                slope = torch.mm(slope, self._weights[i], out=self._slopes[i])
            if i > 0:
                slope = self._through_activation(slope, inputs)
        return slope

    def _through_activation(self, slope: Tensor, result: Tensor) -> Tensor:
        """The slope before an activation, in place, from the one after it."""
        if self._activation == "relu":
            return slope.mul_(result > 0)
        _tanh_backward(slope, result, grad_input=slope)
        return slope

    def _resize(self, rows: int) -> None:
        if not self._buffers or len(self._buffers[0]) < rows:
            widths = [len(bias) for bias in self._biases]
            widths += [weight.shape[1] for weight in self._weights[not self._passes_on :]]
            self._buffers = [torch.zeros(rows, width) for width in widths]
        views = [buffer[:rows] for buffer in self._buffers]
        count = len(self._weights)
        self._outputs = views[:count]
        self._flat_outputs = [output.numpy().reshape(-1) for output in self._outputs]
        self._slopes = views[count:] if self._passes_on else [views[0], *views[count:]]
        self._rows = rows


class ActorCriticByHand:
    """Forward and backward of an actor-critic network of plain MLPs.

    Every user that works with batches of a size of its own takes an instance of its own: buffers
    are kept for one size at a time.
    """

    def __init__(self, network: ActorCritic) -> None:
        policy, value = network.policy_body, network.value_body
        assert isinstance(policy, MLPBody)
        assert isinstance(value, MLPBody)
        self._inputs = network.inputs
        self._trunk: HandGradient | None = None
        if network.shared:
            self._trunk = HandGradient(
                policy.linears, policy.activation, ends_activated=True, turns_narrow=True
            )
            self._policy = HandGradient([network.policy_head], passes_on=True)
            self._value = HandGradient([network.value_head], passes_on=True)
        else:
            self._policy, self._value = (
                HandGradient([*body.linears, head], body.activation, turns_narrow=True)
                for body, head in ((policy, network.policy_head), (value, network.value_head))
            )

    @classmethod
    def of(cls, network: ActorCritic) -> ActorCriticByHand | None:
        """The gradient of a network that is made of MLPs on the CPU, or None if it is not."""
        bodies = (network.policy_body, network.value_body)
        plain = all(isinstance(body, MLPBody) for body in bodies) and network.log_std is None
        on_cpu = network.value_head.weight.device.type == "cpu"
        return cls(network) if plain and on_cpu else None

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, *obs) -> policy outputs (B, A) and values (B, 1), valid until the next call."""
        features = self._features(obs)
        return self._policy.forward(features), self._value.forward(features)

    def policy(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> policy outputs (B, A), valid until the next call."""
        return self._policy.forward(self._features(obs))

    def values(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> values (B, 1), valid until the next call."""
        return self._value.forward(self._features(obs))

    def backward(self, policy_slope: Tensor, value_slope: Tensor) -> None:
        """Overwrite all gradients, given the loss's slopes (B, A) and (B, 1); they are spent."""
        below = self._policy.backward(policy_slope)
        if self._trunk is None:
            self._value.backward(value_slope)
        else:
            self._trunk.backward(below.add_(self._value.backward(value_slope)))

    def _features(self, obs: Tensor) -> Tensor:
        if not self._inputs.plain:
            obs = self._inputs(obs)
        return obs if self._trunk is None else self._trunk.forward(obs)


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
