"""The layer table and packed copies of a network match torch's modules."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from briskrl.core.spec import ArraySpec
from briskrl.fused.kernels import layers, packing, structs
from briskrl.fused.kernels.gemm_tile import LINEAR, RELU, TANH
from briskrl.fused.layer_table import LayerTable
from briskrl.fused.network import build_net
from briskrl.nets.bodies import BodyOptions
from briskrl.nets.flat_parameters import FlatParameters
from briskrl.nets.q_network import QOptions, build_q_network


@pytest.mark.parametrize(
    ("inputs", "outputs", "activation", "thin"),
    [(32, 4, LINEAR, True), (32, 5, LINEAR, False), (40, 2, LINEAR, False)]
    + [(16, 1, activation, False) for activation in (RELU, TANH)],
)
def test_dot_products_compute_linear_layers_with_few_outputs_and_whole_vectors_of_inputs(
    inputs, outputs, activation, thin
):
    row = np.zeros(structs.LAYER_FIELDS, np.int64)
    row[[structs.INPUTS, structs.OUTPUTS, structs.ACTIVATION]] = (
        inputs,
        outputs,
        activation,
    )
    assert layers.uses_dot_products.py_func(row, np.zeros(0, np.float32)) == thin


def build(widths, inputs, actions, *, noisy=False):
    options = QOptions(BodyOptions("auto", widths, ()), True, 0.7 if noisy else None, 1)
    generator = torch.Generator().manual_seed(4)
    network = build_q_network(
        ArraySpec.of((inputs,), np.float32, 0, 1), actions, options, generator
    )
    flat = FlatParameters(network)
    table = LayerTable(flat, inputs)
    features = table.body(network.body, table.obs)
    table.dense(network.head.advantage, features)
    table.dense(network.head.value, features)
    modules = [*network.body.linears, network.head.advantage, network.head.value]
    return network, build_net(table, flat), modules


@given(
    widths=st.lists(st.integers(1, 70) | st.just(32), min_size=1, max_size=3),
    inputs=st.integers(1, 40),
    actions=st.integers(1, 40) | st.integers(1, 4),
    noisy=st.booleans(),
)
def test_packed_weights_equal_those_of_the_modules_with_noise(widths, inputs, actions, noisy):
    network, net, modules = build(widths, inputs, actions, noisy=noisy)
    if noisy:
        noise = network.draw_noise(torch.Generator().manual_seed(1))
        network.set_noise(noise)
        net.noise[:] = noise.numpy()
    before = net.packed.copy()
    packing.pack_net(net)
    assert not np.array_equal(net.packed, before)
    for row, module in zip(net.layers, modules, strict=True):
        weight, bias = module.weight.detach(), module.bias.detach()
        if row[structs.NOISE_OFFSET] >= 0:
            weight = weight + module.weight_sigma.detach() * module.weight_noise
            bias = bias + module.bias_sigma.detach() * module.bias_noise
        outputs, below = weight.shape
        wide, begin = row[structs.OUT_STRIDE], row[structs.PACKED_OFFSET]
        packed = net.packed[begin : begin + below * wide]
        if layers.uses_dot_products.py_func(row, net.packed):
            found = packed[: outputs * below].reshape(outputs, below)
        else:
            found = packed.reshape(below, wide)[:, :outputs].T
        assert found == pytest.approx(weight.numpy(), abs=1e-6)
        bias_at = begin + below * wide
        assert net.packed[bias_at : bias_at + outputs] == pytest.approx(bias.numpy(), abs=1e-6)
    assert net.packed[structs.ONE_OFFSET] == 1
    assert not net.packed[structs.ZEROS_OFFSET : net.layers[0, structs.PACKED_OFFSET]].any()


@given(
    widths=st.lists(st.integers(1, 70), min_size=1, max_size=3),
    inputs=st.integers(1, 40),
    actions=st.integers(1, 40),
)
def test_buffers_of_layers_never_overlap_and_rows_are_whole_vectors(widths, inputs, actions):
    _, net, modules = build(widths, inputs, actions)
    for field, size in (
        (
            structs.OUT_OFFSET,
            lambda row: structs.TILE_ROWS * row[structs.OUT_STRIDE],
        ),
        (
            structs.PACKED_OFFSET,
            lambda row: (row[structs.INPUTS] + 1) * row[structs.OUT_STRIDE],
        ),
        (
            structs.GRADIENT_OFFSET,
            lambda row: (
                layers.bias_gradient_offset.py_func(row)
                - row[structs.GRADIENT_OFFSET]
                + row[structs.OUT_STRIDE]
            ),
        ),
    ):
        end = 0
        for row in sorted(net.layers, key=lambda row: row[field]):
            assert row[field] >= end
            end = row[field] + size(row)
    assert not (net.layers[:, [structs.OUT_STRIDE, structs.SOURCE_STRIDE]] % structs.PADDING).any()
    transposed = net.layers[:, structs.OUT_STRIDE] > net.layers[:, structs.SOURCE_STRIDE]
    assert np.array_equal(net.layers[:, structs.GRADIENT_LAYOUT] == structs.TRANSPOSED, transposed)
    assert net.layers[:, structs.INPUTS].tolist() == [module.weight.shape[1] for module in modules]


def test_a_source_of_several_layers_receives_the_sum_of_their_gradients():
    _, net, _ = build((8, 8), 4, 3)
    # In backpropagation the value head comes first and overwrites; observations get no gradient.
    assert net.layers[:, structs.INPUT_GRADIENT].tolist() == [
        structs.NO_GRADIENT,
        structs.OVERWRITE,
        structs.ACCUMULATE,
        structs.OVERWRITE,
    ]
    # The advantage head comes last, so it applies the gradient of the activation.
    assert net.layers[:, structs.SOURCE_ACTIVATION].tolist() == [LINEAR, RELU, RELU, LINEAR]


def test_parameters_are_views_of_torchs():
    network, net, _ = build((8,), 4, 3)
    with torch.no_grad():
        network.head.advantage.weight.fill_(0.25)
    begin = net.layers[1, structs.WEIGHT_OFFSET]
    assert (net.values[begin : begin + 24] == 0.25).all()
