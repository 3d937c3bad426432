"""Weights rearranged for the matrix products."""

from __future__ import annotations

from briskrl.compiler.jit import helper, kernel
from briskrl.fused.kernels.gemm import transpose_all
from briskrl.fused.kernels.gemm_tile import Matrix
from briskrl.fused.kernels.layers import is_thin
from briskrl.fused.kernels.structs import (
    BIAS_AT,
    BIAS_SIGMA_AT,
    INPUTS,
    NOISE_AT,
    OUT_ROW,
    OUTPUTS,
    PACKED_AT,
    SIGMA_AT,
    STRAIGHT_AT,
    WEIGHT_AT,
)


@helper
def copy_numbers(target, source):
    """target[:] = source."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@helper
def add_numbers(target, first, second):
    """target[:] = first + second."""
    for i in range(target.shape[0]):
        target[i] = first[i] + second[i]


@helper
def pack(net):
    """Bring the copies of weights and biases up to date, noise mixed in."""
    for i in range(net.layers.shape[0]):
        layer = net.layers[i]
        if layer[NOISE_AT] < 0:
            _pack_layer(layer, net.values, layer[WEIGHT_AT], net.packed)
            bias_at = layer[PACKED_AT] + layer[INPUTS] * layer[OUT_ROW]
            bias = net.values[layer[BIAS_AT] : layer[BIAS_AT] + layer[OUTPUTS]]
            copy_numbers(net.packed[bias_at : bias_at + layer[OUTPUTS]], bias)
        else:
            _mix_noise(net, layer)
            _pack_layer(layer, net.straight, layer[STRAIGHT_AT], net.packed)


@helper
def _pack_layer(layer, weights, weight_at, packed):
    """Turn weights (outputs, inputs) into (inputs, OUT_ROW); those of thin layers stay as is."""
    if is_thin(layer, packed):
        count = layer[OUTPUTS] * layer[INPUTS]
        weights = weights[weight_at : weight_at + count]
        copy_numbers(packed[layer[PACKED_AT] : layer[PACKED_AT] + count], weights)
        return
    source = Matrix(weights, weight_at, layer[INPUTS], 1)
    target = Matrix(packed, layer[PACKED_AT], layer[OUT_ROW], 1)
    transpose_all(target, source, layer[OUTPUTS], layer[INPUTS])


@helper
def _mix_noise(net, layer):
    """Weights and bias as noise moves them: w + sigma * f(e_out) f(e_in) (Fortunato 2018)."""
    inputs, outputs = layer[INPUTS], layer[OUTPUTS]
    into = net.noise[layer[NOISE_AT] : layer[NOISE_AT] + inputs]
    out_of = net.noise[layer[NOISE_AT] + inputs : layer[NOISE_AT] + inputs + outputs]
    bias_at = layer[PACKED_AT] + inputs * layer[OUT_ROW]
    for o in range(outputs):
        row = o * inputs
        plain = net.values[layer[WEIGHT_AT] + row : layer[WEIGHT_AT] + row + inputs]
        sigma = net.values[layer[SIGMA_AT] + row : layer[SIGMA_AT] + row + inputs]
        mixed = net.straight[layer[STRAIGHT_AT] + row : layer[STRAIGHT_AT] + row + inputs]
        for i in range(inputs):
            mixed[i] = plain[i] + sigma[i] * (out_of[o] * into[i])
        net.packed[bias_at + o] = (
            net.values[layer[BIAS_AT] + o] + net.values[layer[BIAS_SIGMA_AT] + o] * out_of[o]
        )


@kernel
def pack_net(net):
    """Bring a network's packed copies up to date."""
    pack(net)
