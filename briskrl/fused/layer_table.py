"""A network's modules as a table of layers: the one description that both engines work from."""

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
    """A matrix of TILE_ROWS rows in a Work: observations, or the outputs of a layer."""

    at: int
    width: int

    @property
    def row(self) -> int:
        """Numbers from one row to the next."""
        return -(-self.width // structs.PADDING) * structs.PADDING


class LayerTable:
    """Collects layers in the order in which they are computed, and the room that they need.

    Args:
        flat: The parameters that the layers' modules are views of.
        inputs: Numbers of one observation.
    """

    def __init__(self, flat: FlatParameters, inputs: int) -> None:
        self._flat = flat
        self._rows: list[list[int]] = []
        self._widest = 0
        self._packed = self._gradient = self._out = self.num_noise = self.num_straight = 0
        self.obs = self._slot(inputs)

    def __len__(self) -> int:
        """How many layers there are so far."""
        return len(self._rows)

    def body(self, body: MLPBody, source: Buffer) -> Buffer:
        """Add a body's layers; returns where its features are."""
        for layer in body.linears:
            source = self.dense(layer, source, body.activation)
        return source

    def dense(
        self, layer: nn.Module, source: Buffer, activation: Activation | None = None
    ) -> Buffer:
        """Add one layer; returns where its outputs are."""
        assert isinstance(layer, nn.Linear | NoisyLinear)
        assert layer.bias is not None
        outputs, inputs = layer.weight.shape
        out = self._slot(outputs)
        row = [-1] * structs.LAYER_FIELDS
        row[structs.INPUTS], row[structs.OUTPUTS] = inputs, outputs
        row[structs.SOURCE_AT], row[structs.SOURCE_ROW] = source.at, source.row
        row[structs.OUT_AT], row[structs.OUT_ROW] = out.at, out.row
        row[structs.WEIGHT_AT], row[structs.BIAS_AT] = (
            self._place(layer.weight),
            self._place(layer.bias),
        )
        row[structs.PACKED_AT] = self._packed
        row[structs.GRADIENT_AT] = self._gradient
        row[structs.GRADIENT_LIES] = lies = _lies(inputs, source, out)
        row[structs.ACTIVATION] = LINEAR if activation is None else _ACTIVATIONS[activation]
        row[structs.PASSES_ON] = structs.NOTHING if source == self.obs else structs.FIRST
        if isinstance(layer, NoisyLinear):
            row[structs.SIGMA_AT] = self._place(layer.weight_sigma)
            row[structs.BIAS_SIGMA_AT] = self._place(layer.bias_sigma)
            row[structs.NOISE_AT], row[structs.STRAIGHT_AT] = (
                self.num_noise,
                self.num_straight,
            )
            self.num_noise += inputs + outputs
            self.num_straight += outputs * inputs
        self._packed += (inputs + 1) * out.row
        rows = {
            structs.TURNED: source.row * out.row,
            structs.PADDED: outputs * source.row,
        }
        self._gradient += rows.get(lies, 0) + out.row
        self._rows.append(row)
        return out

    def table(self) -> Ints:
        """The layers so far, (L, LAYER_FIELDS)."""
        table = np.array(self._rows, np.int64)
        table[:, structs.PACKED_AT] += self._packed_header
        activation = {row[structs.OUT_AT]: row[structs.ACTIVATION] for row in table}
        # Backwards, as gradients are handed down: the first to reach a source begins its sum.
        reached: set[int] = set()
        for row in table[::-1]:
            if row[structs.PASSES_ON] == structs.FIRST:
                row[structs.PASSES_ON] = (
                    structs.MORE if row[structs.SOURCE_AT] in reached else structs.FIRST
                )
                reached.add(row[structs.SOURCE_AT])
        for row in table:
            last = row[structs.SOURCE_AT] in reached
            row[structs.GRAD_OF] = activation[row[structs.SOURCE_AT]] if last else LINEAR
            reached.discard(row[structs.SOURCE_AT])
        return table

    @property
    def num_packed(self) -> int:
        """Numbers of a packed array."""
        return self._packed_header + self._packed

    @property
    def num_gradient(self) -> int:
        """Numbers of a padded gradient."""
        return self._gradient

    @property
    def num_out(self) -> int:
        """Numbers of the matrices of a Work."""
        return self._out

    @property
    def _packed_header(self) -> int:
        return structs.ZEROS_AT + self._widest

    def _slot(self, width: int) -> Buffer:
        slot = Buffer(self._out, width)
        self._out += structs.TILE_ROWS * slot.row
        self._widest = max(self._widest, slot.row)
        return slot

    def _place(self, parameter: Tensor) -> int:
        """Where a parameter begins among the flat ones."""
        values = self._flat.values
        return (parameter.data_ptr() - values.data_ptr()) // values.element_size()


def _lies(inputs: int, source: Buffer, out: Buffer) -> int:
    """How the gradient of a layer's weights is summed up."""
    if out.row > source.row:
        return structs.TURNED
    return structs.FLAT if inputs == source.row else structs.PADDED
