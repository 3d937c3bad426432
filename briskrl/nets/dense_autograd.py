"""Forward and backward passes of dense networks in few large torch operations.

Autograd through small layers is mostly bookkeeping: a node per operation, a new tensor per result.
Here a network is one node. Activations and their gradients have buffers that are reused, gradients
are added to those of the parameters in place, and tanh is compiled where possible.
Measured for two networks 4-64-64 at 256 rows: 290 us of CPU against 690 us through autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from briskrl.compiler.math import tanh_all
from briskrl.nets.actor_critic import ActorCritic
from briskrl.nets.bodies import ACTIVATE_IN_PLACE, Activation, MLPBody
from briskrl.nets.heads import QHead
from briskrl.nets.q_network import QNetwork

MAX_CACHED_SIZES = 32
"""Different numbers of rows whose buffer views are kept."""

NARROW = 16
"""Inputs up to which a layer's weight gradient is computed transposed: 4 us instead of 20."""


@dataclass(frozen=True, slots=True)
class _Buffers:
    """Views for one number of rows B, one (B, width) per hidden layer."""

    hidden: list[Tensor]
    arrays: list[NDArray[Any] | None]
    """The same as flat arrays if compiled code can process them."""
    gradients: list[Tensor]
    ones: Tensor
    """(B,)."""


class DenseNet:
    """Dense layers with an activation after each, then several linear heads.

    Parameters are read, and gradients added, in place: both must not move (see FlatParameters).
    The results of a pass are valid until the next one.
    """

    def __init__(
        self, layers: Sequence[nn.Linear], heads: Sequence[nn.Linear], activation: Activation
    ) -> None:
        self._layers = [_Layer(layer) for layer in layers]
        self._heads = [_Layer(head) for head in heads]
        self._like = heads[0].weight.detach()
        compiled = self._like.device.type == "cpu" and self._like.dtype == torch.float32
        self._compiled = compiled and activation == "tanh"
        self._activate: Callable[[Tensor], Tensor] = ACTIVATE_IN_PLACE[activation]
        self._apply_activation_grad = _ACTIVATION_GRADS[activation]
        self._most = 0
        self._hidden: list[Tensor] = []
        self._grads: list[Tensor] = []
        self._buffers: dict[int, _Buffers] = {}
        self._pass_number = 0
        self.num_heads = len(heads)

    def head(self, index: int, obs: Tensor) -> Tensor:
        """(B, inputs) -> (B, outputs) of one head, without gradients."""
        return self._heads[index].forward(self._body(obs))

    def forward(self, obs: Tensor) -> tuple[int, tuple[Tensor, ...]]:
        """The number of this pass, for `backward`, and the outputs of the heads."""
        features = self._body(obs)
        return self._pass_number, tuple(head.forward(features) for head in self._heads)

    def backward(self, pass_number: int, obs: Tensor, gradients: Sequence[Tensor]) -> None:
        """Add the gradients of all parameters, given the gradients (B, outputs) of every head.

        With out = h W^T + b: dW = grad^T h, db = the sum of gradients over the rows, dh = grad W,
        summed over the heads; an activation h = a(z) makes dz = a'(z) dh of it.
        """
        if pass_number != self._pass_number:
            raise RuntimeError("Another pass came between forward and backward.")
        buffers = self._buffers_for(len(obs))
        features = buffers.hidden[-1] if self._layers else obs
        for k, (head, grad) in enumerate(zip(self._heads, gradients, strict=True)):
            head.add_gradients(grad, features, buffers.ones)
            if self._layers:
                head.backpropagate(grad, buffers.gradients[-1], overwrite=k == 0)
        for k in range(len(self._layers) - 1, -1, -1):
            grad, layer = buffers.gradients[k], self._layers[k]
            self._apply_activation_grad(grad, buffers.hidden[k])
            layer.add_gradients(grad, buffers.hidden[k - 1] if k else obs, buffers.ones)
            if k:
                layer.backpropagate(grad, buffers.gradients[k - 1], overwrite=True)

    def _body(self, obs: Tensor) -> Tensor:
        self._pass_number += 1
        buffers, hidden = self._buffers_for(len(obs)), obs
        for layer, out, array in zip(self._layers, buffers.hidden, buffers.arrays, strict=True):
            torch.addmm(layer.bias, hidden, layer.transposed, out=out)
            hidden = out
            if array is None:
                self._activate(hidden)
            else:
                tanh_all(array)
        return hidden

    def _buffers_for(self, rows: int) -> _Buffers:
        buffers = self._buffers.get(rows)
        if buffers is None:
            if len(self._buffers) == MAX_CACHED_SIZES:
                self._buffers.clear()
            buffers = self._buffers[rows] = self._make_buffers(rows)
        return buffers

    # Tensors made in inference mode, while acting, could not be used for updates.
    @torch.inference_mode(False)
    def _make_buffers(self, rows: int) -> _Buffers:
        """Views of the first rows of the buffers, which grow to the largest number of rows."""
        if rows > self._most:
            self._most = rows
            self._buffers.clear()
            self._hidden = [self._like.new_zeros(rows, layer.width) for layer in self._layers]
            self._grads = [torch.zeros_like(tensor) for tensor in self._hidden]
        hidden = [tensor[:rows] for tensor in self._hidden]
        arrays = [tensor.numpy().reshape(-1) if self._compiled else None for tensor in hidden]
        gradients = [tensor[:rows] for tensor in self._grads]
        return _Buffers(hidden, arrays, gradients, self._like.new_ones(rows))


class _Layer:
    """Views of one linear layer's parameters and gradients."""

    def __init__(self, layer: nn.Linear) -> None:
        weight, bias = layer.weight, layer.bias
        assert weight.grad is not None
        assert bias.grad is not None
        self.weight, self.bias = weight.detach(), bias.detach()
        self.transposed = self.weight.t()
        self.width = layer.out_features
        self._weight_grad, self._bias_grad = weight.grad, bias.grad
        narrow = layer.in_features <= NARROW < layer.out_features
        self._transposed_grad = torch.zeros_like(self.transposed.contiguous()) if narrow else None

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.addmm(self.bias, hidden, self.transposed)

    def add_gradients(self, grad: Tensor, below: Tensor, ones: Tensor) -> None:
        if self._transposed_grad is not None:
            torch.mm(below.t(), grad, out=self._transposed_grad)
            self._weight_grad.add_(self._transposed_grad.t())
        else:
            torch.addmm(self._weight_grad, grad.t(), below, out=self._weight_grad)
        self._bias_grad.addmv_(grad.t(), ones)

    def backpropagate(self, grad: Tensor, out: Tensor, *, overwrite: bool) -> None:
        if overwrite:
            torch.mm(grad, self.weight, out=out)
        else:
            torch.addmm(out, grad, self.weight, out=out)


class _Pass(torch.autograd.Function):
    """One pass of several networks as a node of autograd's graph."""

    @staticmethod
    def forward(
        ctx: Any, requires_grad: Tensor, obs: Tensor, nets: Sequence[DenseNet]
    ) -> tuple[Tensor, ...]:
        ctx.obs, ctx.nets = obs, nets
        passes = [net.forward(obs) for net in nets]
        ctx.numbers = [number for number, _ in passes]
        return tuple(output for _, outputs in passes for output in outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None]:
        begin = 0
        for net, number in zip(ctx.nets, ctx.numbers, strict=True):
            net.backward(number, ctx.obs, gradients[begin : begin + net.num_heads])
            begin += net.num_heads
        return None, None, None


# Autograd records a pass only if one of its arguments requires a gradient.
_REQUIRES_GRAD = torch.zeros((), requires_grad=True)


def _forward(obs: Tensor, nets: Sequence[DenseNet]) -> tuple[Tensor, ...]:
    """The outputs of all heads of several networks, for autograd."""
    outputs: tuple[Tensor, ...] = _Pass.apply(_REQUIRES_GRAD, obs, nets)  # type: ignore[no-untyped-call]
    return outputs


def _tanh_grad(grad: Tensor, out: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(grad, out, grad_input=grad)


def _relu_grad(grad: Tensor, out: Tensor) -> None:
    torch.ops.aten.threshold_backward.grad_input(grad, out, 0, grad_input=grad)


_ACTIVATION_GRADS: dict[Activation, Callable[[Tensor, Tensor], None]] = {
    "tanh": _tanh_grad,
    "relu": _relu_grad,
}


class DenseActorCritic:
    """An actor-critic network of dense layers, computed by DenseNet.

    Outputs and gradients equal those of the network itself, up to rounding.
    """

    def __init__(self, network: ActorCritic) -> None:
        policy, value = network.policy_body, network.value_body
        assert isinstance(policy, MLPBody)
        assert isinstance(value, MLPBody)
        heads = [h for h in (network.policy_head, network.value_head) if isinstance(h, nn.Linear)]
        self._network = network
        if network.shared:
            self._nets = [DenseNet(policy.linears, heads, policy.activation)]
        else:
            bodies = zip((policy, value), heads, strict=True)
            self._nets = [DenseNet(body.linears, [head], body.activation) for body, head in bodies]

    def __call__(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, *obs) -> policy outputs and values (B, 1), for autograd.

        The backward pass must come before the next pass of any kind.
        """
        out, value = _forward(self._flat(obs), self._nets)
        return self._network.policy_outputs(out), value

    def policy(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> policy outputs, without gradients."""
        return self._network.policy_outputs(self._nets[0].head(0, self._flat(obs)))

    def values(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> values (B, 1), without gradients."""
        return self._nets[-1].head(-1, self._flat(obs))

    def _flat(self, obs: Tensor) -> Tensor:
        return _flattened(self._network.inputs(obs))


class DenseQ:
    """A Q-network of dense layers without noise, computed by DenseNet; see DenseActorCritic."""

    def __init__(self, network: QNetwork) -> None:
        assert isinstance(network.body, MLPBody)
        assert isinstance(network.head, QHead)
        self._inputs, self._head = network.inputs, network.head
        heads = [layer for layer in _last_layers(network) if isinstance(layer, nn.Linear)]
        self._net = DenseNet(network.body.linears, heads, network.body.activation)

    @staticmethod
    def can_compute(network: QNetwork) -> bool:
        """Whether a network has only such layers."""
        if not isinstance(network.body, MLPBody) or not isinstance(network.head, QHead):
            return False
        if len(network.body.norms):
            return False
        return all(isinstance(layer, nn.Linear) for layer in _last_layers(network))

    def __call__(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> (B, A) or (B, A, atoms), for autograd.

        The backward pass must come before the next pass of any kind.
        """
        inputs = obs if self._inputs.plain else self._inputs(obs)
        return self._head.join(*_forward(_flattened(inputs), [self._net]))


def _last_layers(network: QNetwork) -> list[nn.Module]:
    layers = (network.head.advantage, network.head.value)
    return [layer for layer in layers if layer is not None]


def _flattened(inputs: Tensor) -> Tensor:
    return inputs if inputs.dim() == 2 else inputs.flatten(1)
