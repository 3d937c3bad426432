"""Gradient reduction, clipping and Adam."""

from __future__ import annotations

import math

import numpy as np

from briskrl.compiler.jit import fastmath_finite_helper, fastmath_helper, helper, inline_helper
from briskrl.fused.kernels.gemm import transpose_all
from briskrl.fused.kernels.gemm_tile import Matrix
from briskrl.fused.kernels.layers import bias_gradient_offset
from briskrl.fused.kernels.packing import add_numbers, copy_numbers
from briskrl.fused.kernels.structs import (
    BIAS_OFFSET,
    BIAS_SIGMA_OFFSET,
    GRADIENT_LAYOUT,
    GRADIENT_OFFSET,
    INPUTS,
    NOISE_OFFSET,
    OUT_STRIDE,
    OUTPUTS,
    PADDED,
    SIGMA_OFFSET,
    SOURCE_STRIDE,
    STATS_OFFSET,
    TRANSPOSED,
    WEIGHT_OFFSET,
)
from briskrl.nets.update_counters import DONE, LONGEST, NORMS, RUN, SKIPPED


@helper
def collect_gradient(net, padded, flat, gradients):
    """Write the flat gradient: the sum of its parts, in order.

    Args:
        net: The network.
        padded: (P, G) the `gradient` of each part's Workspace.
        flat: (P, N) the `flat` of each part's Workspace, or (0, N) if that was `gradients`.
        gradients: (N,), written.
    """
    for k in range(net.layers.shape[0]):
        layer = net.layers[k]
        inputs, outputs, below = layer[INPUTS], layer[OUTPUTS], layer[SOURCE_STRIDE]
        at, weight_at, bias_at = layer[GRADIENT_OFFSET], layer[WEIGHT_OFFSET], layer[BIAS_OFFSET]
        if layer[STATS_OFFSET] >= 0:
            _sum_parts(padded, at, gradients, weight_at, outputs)
            _sum_parts(padded, at + layer[OUT_STRIDE], gradients, bias_at, outputs)
            continue
        _sum_parts(padded, bias_gradient_offset(layer), gradients, bias_at, outputs)
        if layer[GRADIENT_LAYOUT] == TRANSPOSED:
            _sum_transposed(padded, layer, gradients)
        elif layer[GRADIENT_LAYOUT] == PADDED:
            for o in range(outputs):
                _sum_parts(padded, at + o * below, gradients, weight_at + o * inputs, inputs)
        elif flat.shape[0] > 0:
            _sum_parts(flat, weight_at, gradients, weight_at, outputs * inputs)
        if layer[NOISE_OFFSET] >= 0:
            _noise_gradients(net, layer, gradients)


@inline_helper
def _sum_parts(padded, at, gradients, to, count):
    """gradients[to : to + count] = the sum of padded[:, at : at + count]."""
    total, first = gradients[to : to + count], padded[0, at : at + count]
    if padded.shape[0] == 1:
        copy_numbers(total, first)
        return
    add_numbers(total, first, padded[1, at : at + count])
    for part in range(2, padded.shape[0]):
        add_numbers(total, total, padded[part, at : at + count])


@helper
def _sum_transposed(padded, layer, gradients):
    """Write the sum of a layer's transposed weight gradients in torch's layout."""
    inputs, outputs, wide = layer[INPUTS], layer[OUTPUTS], layer[OUT_STRIDE]
    source = Matrix(padded[0], layer[GRADIENT_OFFSET], wide, 1)
    transpose_all(Matrix(gradients, layer[WEIGHT_OFFSET], inputs, 1), source, inputs, outputs)
    for part in range(1, padded.shape[0]):
        for i in range(inputs):
            at, to = layer[GRADIENT_OFFSET] + i * wide, layer[WEIGHT_OFFSET] + i
            for o in range(outputs):
                gradients[to + o * inputs] += padded[part, at + o]


@helper
def _noise_gradients(net, layer, gradients):
    """The gradient of sigma is that of the weight or bias, times the noise."""
    inputs, outputs = layer[INPUTS], layer[OUTPUTS]
    into = net.noise[layer[NOISE_OFFSET] : layer[NOISE_OFFSET] + inputs]
    out_of = net.noise[layer[NOISE_OFFSET] + inputs : layer[NOISE_OFFSET] + inputs + outputs]
    for o in range(outputs):
        row = o * inputs
        plain = gradients[layer[WEIGHT_OFFSET] + row : layer[WEIGHT_OFFSET] + row + inputs]
        sigma = gradients[layer[SIGMA_OFFSET] + row : layer[SIGMA_OFFSET] + row + inputs]
        for i in range(inputs):
            sigma[i] = plain[i] * (out_of[o] * into[i])
        gradients[layer[BIAS_SIGMA_OFFSET] + o] = gradients[layer[BIAS_OFFSET] + o] * out_of[o]


@fastmath_helper
def norm_of(gradients):
    """The Euclidean norm of a flat gradient."""
    total = gradients.dtype.type(0)
    for i in range(gradients.shape[0]):
        total += gradients[i] * gradients[i]
    return math.sqrt(total)


@fastmath_finite_helper
def _adam(optimizer, scale):
    """One step of Adam (Kingma 2015) on scaled gradients, in the order of operations of torch."""
    values, gradients = optimizer.values, optimizer.gradients
    mean, variance = optimizer.mean, optimizer.variance
    dtype = values.dtype.type
    lr, epsilon, _, beta2 = optimizer.settings
    optimizer.count[0] += 1
    steps = optimizer.count[0]
    step_size = dtype(lr / (1 - 0.9**steps))
    correction = dtype(math.sqrt(1 - beta2**steps))
    mean_rate, variance_rate, decay = dtype(0.1), dtype(1 - beta2), dtype(beta2)
    eps, factor = dtype(epsilon), dtype(scale)
    if scale != 1:
        for i in range(values.shape[0]):
            gradients[i] *= factor
    for i in range(values.shape[0]):
        g = gradients[i]
        m = mean[i] + mean_rate * (g - mean[i])
        v = variance[i] * decay + variance_rate * g * g
        mean[i] = m
        variance[i] = v
        values[i] -= step_size * m / (np.sqrt(v) / correction + eps)


@helper
def apply_gradient(optimizer):
    """Clip the gradient and take a step, unless it is not finite; update the counters."""
    counters = optimizer.counters
    norm = norm_of(optimizer.gradients)
    if not math.isfinite(norm):
        counters[RUN] += 1
        counters[LONGEST] = max(counters[LONGEST], counters[RUN])
        counters[SKIPPED] += 1
        return
    counters[RUN] = 0
    counters[DONE] += 1
    counters[NORMS] += norm
    limit = optimizer.settings[2]
    _adam(optimizer, limit / norm if 0 < limit < norm else 1.0)
