"""Translate torch networks into programs, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from briskrl.core.errors import ConfigError
from briskrl.export.program import OBS, Operation, Program
from briskrl.nets.actor_critic import ActorCritic
from briskrl.nets.bodies import (
    MAX_DEVIATIONS,
    FCNBody,
    InputScaling,
    MLPBody,
    ResidualBlock,
)
from briskrl.nets.body_choice import Body
from briskrl.nets.heads import BoardHead, CellHead, CellQHead, NoisyLinear, QHead
from briskrl.nets.image_bodies import CNNBody
from briskrl.nets.q_network import QNetwork

Arrays = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program with its weights."""

    program: Program
    arrays: Arrays


def lower_actor(network: ActorCritic) -> Lowered:
    """The policy of an actor-critic: logits, or means and log standard deviations."""
    builder = _Builder(network)
    at = builder.body(network.policy_body, builder.inputs(network.inputs, OBS))
    head = network.policy_head
    if isinstance(head, CellHead):
        at = builder.apply("squeeze", builder.cell_head(head, at), axis=2)
    else:
        at = builder.linear(head, at)
    if network.log_std is not None:
        builder.apply("append", at, values=network.log_std)
    return builder.done()


def lower_q_network(network: QNetwork, support: Tensor | None) -> Lowered:
    """The action values of a Q-network; noisy layers without noise."""
    builder = _Builder(network)
    features = builder.body(network.body, builder.inputs(network.inputs, OBS))
    head = network.head
    if isinstance(head, CellQHead):
        at, atoms = builder.cell_q_head(head, features), _outputs(head.advantage.out)
    else:
        at, atoms = builder.q_head(head, features), head.atoms
    if support is not None:
        builder.apply("expectation", at, support=support)
    elif atoms > 1:
        # Quantiles, whose mean is the value.
        builder.apply("mean", at, axes=[2], keepdims=False)
    return builder.done()


class _Builder:
    """Collects operations and weights; methods return the name of their result."""

    def __init__(self, network: nn.Module) -> None:
        self._operations: list[Operation] = []
        self._arrays: Arrays = {}
        self._names = {id(tensor): name for name, tensor in network.named_parameters()}

    def done(self) -> Lowered:
        return Lowered(Program(tuple(self._operations)), self._arrays)

    def apply(self, name: str, *inputs: str, **options: Any) -> str:
        """Add an operation; tensors among the options are its weights."""
        output = f"x{len(self._operations)}"
        weights, attributes = {}, {}
        for option, value in options.items():
            if isinstance(value, Tensor):
                weights[option] = self._names.get(id(value), f"{output}.{option}")
                # A copy: training may go on.
                self._arrays[weights[option]] = value.detach().cpu().float().numpy().copy()
            else:
                attributes[option] = value
        self._operations.append(Operation(name, inputs, output, weights, attributes))
        return output

    def inputs(self, scaling: InputScaling, at: str) -> str:
        if scaling.scales_bytes:
            return self.apply("multiply", at, factor=1 / 255)
        if scaling.standardize:
            moments = {"mean": scaling.mean, "scale": scaling.scale}
            return self.apply("standardize", at, **moments, limit=MAX_DEVIATIONS)
        return at

    def body(self, body: Body, at: str) -> str:
        if isinstance(body, MLPBody):
            return self.mlp(body, self.apply("flatten", at))
        if isinstance(body, CNNBody):
            for k, convolution in enumerate(body.convolutions):
                at = self.norm(body.norms, k, self.conv(convolution, at))
                at = self.apply(body.mlp.activation, at)
            return self.mlp(body.mlp, self.apply("flatten", at))
        if not isinstance(body, FCNBody):
            raise ConfigError(
                f"A {type(body).__name__} cannot be exported: only networks for vectors, boards "
                "and single small pictures can."
            )
        return self.fcn(body, at)

    def mlp(self, body: MLPBody, at: str) -> str:
        for k, layer in enumerate(body.linears):
            at = self.norm(body.norms, k, self.linear(layer, at))
            at = self.apply(body.activation, at)
        return at

    def norm(self, norms: nn.ModuleList, k: int, at: str) -> str:
        """The k-th normalization, if there are any."""
        if not len(norms):
            return at
        norm = norms[k]
        assert isinstance(norm, nn.LayerNorm | nn.GroupNorm)
        # The gains of a group norm are per channel.
        shape = (-1,) if isinstance(norm, nn.LayerNorm) else (-1, 1, 1)
        gains = {"weight": norm.weight.view(shape), "bias": norm.bias.view(shape)}
        return self.apply("normalize", at, **gains, eps=norm.eps)

    def fcn(self, body: FCNBody, at: str) -> str:
        at = self.apply(body.activation, self.conv(body.stem, at))
        for block in body.blocks:
            assert isinstance(block, ResidualBlock)
            added = self.apply(block.activation, self.conv(block.convolution, at))
            around = at if block.around is None else self.conv(block.around, at)
            at = self.apply("add", added, around)
        return at

    def cell_head(self, head: CellHead, features: str) -> str:
        """(N, C, H, W) -> (N, H * W, outputs)."""
        cells = self.apply("cells", features)
        mean = self.apply("mean", cells, axes=[1], keepdims=True)
        mixed = self.apply("add", self.linear(head.mix, cells), self.linear(head.context, mean))
        return self.linear(head.out, self.apply(head.activation, mixed))

    def board_head(self, head: BoardHead, features: str) -> str:
        mean = self.apply("mean", features, axes=[2, 3], keepdims=False)
        return self.linear(head.out, self.mlp(head.mlp, mean))

    def q_head(self, head: QHead, features: str) -> str:
        advantage = self.linear(head.advantage, features)
        if head.value is None and head.atoms == 1:
            return advantage
        advantage = self.apply("reshape", advantage, shape=[head.actions, head.atoms])
        value = None if head.value is None else self.linear(head.value, features)
        return self.dueling(advantage, value, head.atoms)

    def cell_q_head(self, head: CellQHead, features: str) -> str:
        advantage = self.cell_head(head.advantage, features)
        value = None if head.value is None else self.board_head(head.value, features)
        return self.dueling(advantage, value, _outputs(head.advantage.out))

    def dueling(self, advantage: str, value: str | None, atoms: int) -> str:
        """Advantages (N, A, Z) with values (N, Z), as in `nets/heads.py`."""
        if value is not None:
            state = self.apply("reshape", value, shape=[1, atoms])
            mean = self.apply("mean", advantage, axes=[1], keepdims=True)
            advantage = self.apply("subtract", self.apply("add", state, advantage), mean)
        return self.apply("squeeze", advantage, axis=2) if atoms == 1 else advantage

    def linear(self, layer: nn.Module, at: str) -> str:
        if not isinstance(layer, nn.Linear | NoisyLinear):
            raise ConfigError(f"A layer {type(layer).__name__} cannot be exported.")
        return self.apply("linear", at, weight=layer.weight, bias=_bias(layer))

    def conv(self, layer: nn.Module, at: str) -> str:
        if not isinstance(layer, nn.Conv2d):
            raise ConfigError(f"A layer {type(layer).__name__} cannot be exported.")
        if layer.stride != (1, 1):
            raise ConfigError("Strided convolutions (--body nature) cannot be exported.")
        padding, dilation = layer.padding[0], layer.dilation[0]
        return self.apply(
            "conv", at, weight=layer.weight, bias=_bias(layer), padding=padding, dilation=dilation
        )


def _outputs(layer: nn.Module) -> int:
    assert isinstance(layer, nn.Linear | NoisyLinear)
    return int(layer.weight.shape[0])


def _bias(layer: nn.Linear | NoisyLinear | nn.Conv2d) -> Tensor:
    return torch.zeros(len(layer.weight)) if layer.bias is None else layer.bias
