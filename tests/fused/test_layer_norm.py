"""Layer normalization as compiled code, against the plain computation of its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from briskrl.compiler.jit import kernel
from briskrl.fused.kernels.adam import collect_gradient
from briskrl.fused.kernels.layers import backward, forward
from briskrl.fused.kernels.packing import pack_net
from briskrl.fused.layer_table import LayerTable
from briskrl.fused.network import build_gradient_parts, build_net, build_workspace
from briskrl.nets.bodies import MLPBody
from briskrl.nets.flat_parameters import FlatParameters


@kernel
def run(net, work, rows, first, middle):
    """One tile forward and backward."""
    forward(net, net.layers, work, rows)
    backward(net, work, rows, first, middle)


@kernel
def collect(net, padded, flat, gradients):
    """Add up the parts."""
    collect_gradient(net, padded, flat, gradients)


def reference_rows(x, weight, bias, gain, shift):
    """relu(gain * (z - mean) / sqrt(var + 1e-5) + shift) with z = x W' + b, row by row."""
    rows = []
    for row in x:
        z = weight @ row + bias
        z = (z - z.mean()) / np.sqrt(z.var() + 1e-5)
        rows.append(np.maximum(0, gain * z + shift))
    return np.array(rows)


class Setup:
    """A body of one normalized layer, and the arrays of the fused engine for it."""

    def __init__(self, inputs=3, width=11):
        torch.manual_seed(3)
        self.body = MLPBody(inputs, (width,), layer_norm=True).double()
        with torch.no_grad():
            self.body.norms[0].weight.uniform_(0.5, 2)
            self.body.norms[0].bias.uniform_(-1, 1)
        self.flat = FlatParameters(self.body)
        table = LayerTable(self.flat, inputs)
        self.source, self.out = table.obs, table.body(self.body, table.obs)
        self.net = build_net(table, self.flat)
        self.parts = build_gradient_parts(table, self.flat, 1, 1)
        self.work = build_workspace(table, self.flat, self.parts, 0, 0)
        pack_net(self.net)

    def matrix(self, data, buffer, rows):
        flat = data[buffer.offset : buffer.offset + rows * buffer.stride]
        return flat.reshape(rows, buffer.stride)[:, : buffer.width]

    def gradients(self, x, dy, middle=0):
        """Outputs, and the flat gradient for gradients dy of the layer before its activation."""
        rows = len(x)
        self.matrix(self.work.out, self.source, rows)[...] = x
        self.matrix(self.work.out_grad, self.out, rows)[...] = dy
        run(self.net, self.work, rows, True, middle)
        gradients = np.zeros(len(self.flat.values))
        collect(self.net, self.parts.padded[0], self.parts.flat[0], gradients)
        return self.matrix(self.work.out, self.out, rows).copy(), gradients


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_outputs_equal_the_definition(rows):
    setup = Setup()
    x = np.random.default_rng(0).standard_normal((rows, 3)) * 3
    out, _ = setup.gradients(x, np.zeros((rows, 11)))
    layer, norm = setup.body.layers[0], setup.body.norms[0]
    arrays = (p.detach().numpy() for p in (layer.weight, layer.bias, norm.weight, norm.bias))
    assert out == pytest.approx(reference_rows(x, *arrays), abs=1e-9)


def test_gradients_equal_differences_of_the_definition():
    setup = Setup()
    rng = np.random.default_rng(1)
    x, dy = rng.standard_normal((7, 3)), rng.standard_normal((7, 11))
    _, gradients = setup.gradients(x, dy * (setup.gradients(x, dy)[0] > 0))
    layer, norm = setup.body.layers[0], setup.body.norms[0]

    def loss():
        arrays = (p.detach().numpy() for p in (layer.weight, layer.bias, norm.weight, norm.bias))
        return float((reference_rows(x, *arrays) * dy).sum())

    values = setup.flat.values
    for k in range(len(values)):
        before = float(values[k])
        values[k] = before + 1e-6
        above = loss()
        values[k] = before - 1e-6
        below = loss()
        values[k] = before
        assert gradients[k] == pytest.approx((above - below) / 2e-6, abs=1e-5)


def test_two_halves_of_a_tile_are_summed_in_the_order_of_two_threads():
    setup = Setup()
    rng = np.random.default_rng(2)
    x, dy = rng.standard_normal((50, 3)), rng.standard_normal((50, 11))
    _, split = setup.gradients(x, dy, middle=23)
    _, first = setup.gradients(x[:23], dy[:23])
    _, second = setup.gradients(x[23:], dy[23:])
    assert np.array_equal(split, first + second)
