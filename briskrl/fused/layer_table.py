"""A network's modules as a table of layers, from which kernels compute it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from briskrl.core.types import Ints
from briskrl.fused.kernels import structs
from briskrl.fused.kernels.gemm_tile import LINEAR, RELU, TANH
from briskrl.nets.bodies import Activation, MLPBody
from briskrl.nets.flat_parameters import FlatParameters
from briskrl.nets.heads import NoisyLinear

_ACTIVATIONS = {"relu": RELU, "tanh": TANH}


@dataclass(frozen=True, slots=True)
class Buffer:
    """A matrix of TILE_ROWS rows in a Workspace: observations, or the outputs of a layer."""

    offset: int
    width: int

    @property
    def stride(self) -> int:
        """Elements from one row to the next."""
        return -(-self.width // structs.PADDING) * structs.PADDING


class LayerTable:
    """Collects layers in the order of computation, and the sizes of the arrays that they need.

    Args:
        flat: The parameters, of which those of the modules are views.
        inputs: Elements of one observation.
    """

    def __init__(self, flat: FlatParameters, inputs: int) -> None:
        self._flat = flat
        self._rows: list[list[int]] = []
        self._widest = 0
        self._packed = self._gradient = self._out = self.num_noise = self.num_noisy = 0
        self.obs = self._add_buffer(inputs)

    def __len__(self) -> int:
        """The number of layers so far."""
        return len(self._rows)

    def body(self, body: MLPBody, source: Buffer) -> Buffer:
        """Add the layers of a body; returns the buffer of its features."""
        for k, layer in enumerate(body.linears):
            norm = body.norms[k] if len(body.norms) else None
            source = self.dense(layer, source, body.activation if norm is None else None)
            if norm is not None:
                source = self.normalization(norm, source, body.activation)
        return source

    def dense(
        self, layer: nn.Module, source: Buffer, activation: Activation | None = None
    ) -> Buffer:
        """Add one layer; returns the buffer of its outputs."""
        assert isinstance(layer, nn.Linear | NoisyLinear)
        assert layer.bias is not None
        outputs, inputs = layer.weight.shape
        out = self._add_buffer(outputs)
        row = [-1] * structs.LAYER_FIELDS
        row[structs.INPUTS], row[structs.OUTPUTS] = inputs, outputs
        row[structs.SOURCE_OFFSET], row[structs.SOURCE_STRIDE] = source.offset, source.stride
        row[structs.OUT_OFFSET], row[structs.OUT_STRIDE] = out.offset, out.stride
        row[structs.WEIGHT_OFFSET], row[structs.BIAS_OFFSET] = (
            self._offset_of(layer.weight),
            self._offset_of(layer.bias),
        )
        row[structs.PACKED_OFFSET] = self._packed
        row[structs.GRADIENT_OFFSET] = self._gradient
        row[structs.GRADIENT_LAYOUT] = layout = _gradient_layout(inputs, source, out)
        row[structs.ACTIVATION] = LINEAR if activation is None else _ACTIVATIONS[activation]
        row[structs.INPUT_GRADIENT] = (
            structs.NO_GRADIENT if source == self.obs else structs.OVERWRITE
        )
        if isinstance(layer, NoisyLinear):
            row[structs.SIGMA_OFFSET] = self._offset_of(layer.weight_sigma)
            row[structs.BIAS_SIGMA_OFFSET] = self._offset_of(layer.bias_sigma)
            row[structs.NOISE_OFFSET], row[structs.NOISY_OFFSET] = (
                self.num_noise,
                self.num_noisy,
            )
            self.num_noise += inputs + outputs
            self.num_noisy += outputs * inputs
        self._packed += (inputs + 1) * out.stride
        rows = {
            structs.TRANSPOSED: source.stride * out.stride,
            structs.PADDED: outputs * source.stride,
        }
        self._gradient += rows.get(layout, 0) + out.stride
        self._rows.append(row)
        return out

    def normalization(self, norm: nn.Module, source: Buffer, activation: Activation) -> Buffer:
        """Add a layer normalization of a dense layer's outputs; returns the buffer of its own."""
        assert isinstance(norm, nn.LayerNorm)
        out, stats = self._add_buffer(source.width), self._add_buffer(1)
        assert stats.stride == structs.STATS_STRIDE
        row = [-1] * structs.LAYER_FIELDS
        row[structs.INPUTS] = row[structs.OUTPUTS] = source.width
        row[structs.SOURCE_OFFSET], row[structs.SOURCE_STRIDE] = source.offset, source.stride
        row[structs.OUT_OFFSET], row[structs.OUT_STRIDE] = out.offset, out.stride
        row[structs.WEIGHT_OFFSET] = self._offset_of(norm.weight)
        row[structs.BIAS_OFFSET] = self._offset_of(norm.bias)
        row[structs.PACKED_OFFSET] = self._packed
        row[structs.GRADIENT_OFFSET] = self._gradient
        row[structs.GRADIENT_LAYOUT] = structs.PADDED
        row[structs.ACTIVATION] = _ACTIVATIONS[activation]
        row[structs.INPUT_GRADIENT] = structs.OVERWRITE
        row[structs.STATS_OFFSET] = stats.offset
        self._packed += 2 * out.stride
        self._gradient += 4 * out.stride
        self._rows.append(row)
        return out

    def table(self) -> Ints:
        """The layers so far, (L, LAYER_FIELDS)."""
        table = np.array(self._rows, np.int64)
        table[:, structs.PACKED_OFFSET] += self._packed_header
        activation = {row[structs.OUT_OFFSET]: row[structs.ACTIVATION] for row in table}
        # In the order of backpropagation: the first to reach a source overwrites its gradient.
        reached: set[int] = set()
        for row in table[::-1]:
            if row[structs.INPUT_GRADIENT] == structs.OVERWRITE:
                row[structs.INPUT_GRADIENT] = (
                    structs.ACCUMULATE
                    if row[structs.SOURCE_OFFSET] in reached
                    else structs.OVERWRITE
                )
                reached.add(row[structs.SOURCE_OFFSET])
        for row in table:
            last = row[structs.SOURCE_OFFSET] in reached
            row[structs.SOURCE_ACTIVATION] = (
                activation[row[structs.SOURCE_OFFSET]] if last else LINEAR
            )
            reached.discard(row[structs.SOURCE_OFFSET])
        return table

    @property
    def num_packed(self) -> int:
        """Elements of a packed array."""
        return self._packed_header + self._packed

    @property
    def num_gradient(self) -> int:
        """Elements of a padded gradient."""
        return self._gradient

    @property
    def num_out(self) -> int:
        """Elements of the matrices of a Workspace."""
        return self._out

    @property
    def _packed_header(self) -> int:
        return structs.ZEROS_OFFSET + self._widest

    def _add_buffer(self, width: int) -> Buffer:
        buffer = Buffer(self._out, width)
        self._out += structs.TILE_ROWS * buffer.stride
        self._widest = max(self._widest, buffer.stride)
        return buffer

    def _offset_of(self, parameter: Tensor) -> int:
        """The offset of a parameter in the flat parameters."""
        values = self._flat.values
        return (parameter.data_ptr() - values.data_ptr()) // values.element_size()


def _gradient_layout(inputs: int, source: Buffer, out: Buffer) -> int:
    """The layout in which the gradient of a layer's weights is accumulated."""
    if out.stride > source.stride:
        return structs.TRANSPOSED
    return structs.FLAT if inputs == source.stride else structs.PADDED
