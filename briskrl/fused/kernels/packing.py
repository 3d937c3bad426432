"""Weights in the layout that matrix products need."""

from __future__ import annotations

from briskrl.compiler.jit import helper, kernel
from briskrl.fused.kernels.gemm import transpose_all
from briskrl.fused.kernels.gemm_tile import Matrix
from briskrl.fused.kernels.layers import uses_dot_products
from briskrl.fused.kernels.structs import (
    BIAS_OFFSET,
    BIAS_SIGMA_OFFSET,
    INPUTS,
    NOISE_OFFSET,
    NOISY_OFFSET,
    OUT_STRIDE,
    OUTPUTS,
    PACKED_OFFSET,
    SIGMA_OFFSET,
    STATS_OFFSET,
    WEIGHT_OFFSET,
)


@helper
def copy_numbers(target, source):
    """target[:] = source."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@helper
def move_numbers(target, source, share):
    """Move target a share of the way to source: all of it with a share of 1."""
    if share == 1:
        copy_numbers(target, source)
        return
    step = target.dtype.type(share)
    for i in range(source.shape[0]):
        target[i] += step * (source[i] - target[i])


@helper
def add_numbers(target, first, second):
    """target[:] = first + second."""
    for i in range(target.shape[0]):
        target[i] = first[i] + second[i]


@helper
def pack(net):
    """Update the packed copies of weights and biases, noise included."""
    for i in range(net.layers.shape[0]):
        layer = net.layers[i]
        if layer[STATS_OFFSET] >= 0:
            _pack_gain_and_bias(layer, net)
        elif layer[NOISE_OFFSET] < 0:
            _pack_layer(layer, net.values, layer[WEIGHT_OFFSET], net.packed)
            bias_at = layer[PACKED_OFFSET] + layer[INPUTS] * layer[OUT_STRIDE]
            bias = net.values[layer[BIAS_OFFSET] : layer[BIAS_OFFSET] + layer[OUTPUTS]]
            copy_numbers(net.packed[bias_at : bias_at + layer[OUTPUTS]], bias)
        else:
            _mix_noise(net, layer)
            _pack_layer(layer, net.noisy_weights, layer[NOISY_OFFSET], net.packed)


@helper
def _pack_gain_and_bias(layer, net):
    """Write the gain and the bias of a layer normalization, OUT_STRIDE elements each."""
    at, count = layer[PACKED_OFFSET], layer[OUTPUTS]
    gain = net.values[layer[WEIGHT_OFFSET] : layer[WEIGHT_OFFSET] + count]
    copy_numbers(net.packed[at : at + count], gain)
    at += layer[OUT_STRIDE]
    bias = net.values[layer[BIAS_OFFSET] : layer[BIAS_OFFSET] + count]
    copy_numbers(net.packed[at : at + count], bias)


@helper
def _pack_layer(layer, weights, weight_at, packed):
    """Write weights (outputs, inputs) as (inputs, OUT_STRIDE), or as they are for dot products."""
    if uses_dot_products(layer, packed):
        count = layer[OUTPUTS] * layer[INPUTS]
        weights = weights[weight_at : weight_at + count]
        copy_numbers(packed[layer[PACKED_OFFSET] : layer[PACKED_OFFSET] + count], weights)
        return
    source = Matrix(weights, weight_at, layer[INPUTS], 1)
    target = Matrix(packed, layer[PACKED_OFFSET], layer[OUT_STRIDE], 1)
    transpose_all(target, source, layer[OUTPUTS], layer[INPUTS])


@helper
def _mix_noise(net, layer):
    """Noisy weights and bias: w + sigma * f(e_out) f(e_in) (Fortunato 2018)."""
    inputs, outputs = layer[INPUTS], layer[OUTPUTS]
    into = net.noise[layer[NOISE_OFFSET] : layer[NOISE_OFFSET] + inputs]
    out_of = net.noise[layer[NOISE_OFFSET] + inputs : layer[NOISE_OFFSET] + inputs + outputs]
    bias_at = layer[PACKED_OFFSET] + inputs * layer[OUT_STRIDE]
    for o in range(outputs):
        row = o * inputs
        plain = net.values[layer[WEIGHT_OFFSET] + row : layer[WEIGHT_OFFSET] + row + inputs]
        sigma = net.values[layer[SIGMA_OFFSET] + row : layer[SIGMA_OFFSET] + row + inputs]
        mixed = net.noisy_weights[layer[NOISY_OFFSET] + row : layer[NOISY_OFFSET] + row + inputs]
        for i in range(inputs):
            mixed[i] = plain[i] + sigma[i] * (out_of[o] * into[i])
        net.packed[bias_at + o] = (
            net.values[layer[BIAS_OFFSET] + o]
            + net.values[layer[BIAS_SIGMA_OFFSET] + o] * out_of[o]
        )


@kernel
def pack_net(net):
    """`pack` for callers that are not compiled."""
    pack(net)
