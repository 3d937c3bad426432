"""Gradient reduction, clipping and Adam."""

from __future__ import annotations

import math

import numpy as np

from briskrl.compiler.jit import fastmath_finite_helper, fastmath_helper, helper, inline_helper
from briskrl.fused.kernels.gemm import transpose_all
from briskrl.fused.kernels.gemm_tile import Matrix
from briskrl.fused.kernels.layers import bias_gradient_at
from briskrl.fused.kernels.packing import add_numbers, copy_numbers
from briskrl.fused.kernels.structs import (
    BIAS_AT,
    BIAS_SIGMA_AT,
    GRADIENT_AT,
    GRADIENT_LIES,
    INPUTS,
    NOISE_AT,
    OUT_ROW,
    OUTPUTS,
    PADDED,
    SIGMA_AT,
    SOURCE_ROW,
    TURNED,
    WEIGHT_AT,
)
from briskrl.nets.update_counters import DONE, LONGEST, NORMS, RUN, SKIPPED


@helper
def collect_gradient(net, padded, flat, gradients):
    """Write the flat gradient: the sum of parts, in their order.

    Args:
        net: Has the layers.
        padded: (P, G) what parts left in their Work's `gradient`.
        flat: (P, N) what they left in its `flat`, or (0, N) if that was `gradients`.
        gradients: (N,), written.
    """
    for k in range(net.layers.shape[0]):
        layer = net.layers[k]
        inputs, outputs, below = layer[INPUTS], layer[OUTPUTS], layer[SOURCE_ROW]
        at, weight_at, bias_at = layer[GRADIENT_AT], layer[WEIGHT_AT], layer[BIAS_AT]
        _sum_parts(padded, bias_gradient_at(layer), gradients, bias_at, outputs)
        if layer[GRADIENT_LIES] == TURNED:
            _sum_turned(padded, layer, gradients)
        elif layer[GRADIENT_LIES] == PADDED:
            for o in range(outputs):
                _sum_parts(padded, at + o * below, gradients, weight_at + o * inputs, inputs)
        elif flat.shape[0] > 0:
            _sum_parts(flat, weight_at, gradients, weight_at, outputs * inputs)
        if layer[NOISE_AT] >= 0:
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
def _sum_turned(padded, layer, gradients):
    """Write the sum of a layer's turned gradients of weights as torch has them."""
    inputs, outputs, wide = layer[INPUTS], layer[OUTPUTS], layer[OUT_ROW]
    source = Matrix(padded[0], layer[GRADIENT_AT], wide, 1)
    transpose_all(Matrix(gradients, layer[WEIGHT_AT], inputs, 1), source, inputs, outputs)
    for part in range(1, padded.shape[0]):
        for i in range(inputs):
            at, to = layer[GRADIENT_AT] + i * wide, layer[WEIGHT_AT] + i
            for o in range(outputs):
                gradients[to + o * inputs] += padded[part, at + o]


@helper
def _noise_gradients(net, layer, gradients):
    """What noise multiplies has the gradient of what it is added to, times the noise."""
    inputs, outputs = layer[INPUTS], layer[OUTPUTS]
    into = net.noise[layer[NOISE_AT] : layer[NOISE_AT] + inputs]
    out_of = net.noise[layer[NOISE_AT] + inputs : layer[NOISE_AT] + inputs + outputs]
    for o in range(outputs):
        row = o * inputs
        plain = gradients[layer[WEIGHT_AT] + row : layer[WEIGHT_AT] + row + inputs]
        sigma = gradients[layer[SIGMA_AT] + row : layer[SIGMA_AT] + row + inputs]
        for i in range(inputs):
            sigma[i] = plain[i] * (out_of[o] * into[i])
        gradients[layer[BIAS_SIGMA_AT] + o] = gradients[layer[BIAS_AT] + o] * out_of[o]


@fastmath_helper
def norm_of(gradients):
    """The Euclidean norm of a flat gradient."""
    total = gradients.dtype.type(0)
    for i in range(gradients.shape[0]):
        total += gradients[i] * gradients[i]
    return math.sqrt(total)


@fastmath_finite_helper
def _adam(optimizer, scale):
    """One step of Adam (Kingma 2015), with gradients scaled first; the order is torch's."""
    values, gradients = optimizer.values, optimizer.gradients
    mean, variance = optimizer.mean, optimizer.variance
    kind = values.dtype.type
    lr, offset, _ = optimizer.settings
    optimizer.count[0] += 1
    steps = optimizer.count[0]
    size = kind(lr / (1 - 0.9**steps))
    spread = kind(math.sqrt(1 - 0.999**steps))
    keep, take, taken, eps, factor = kind(0.999), kind(0.001), kind(0.1), kind(offset), kind(scale)
    if scale != 1:
        for i in range(values.shape[0]):
            gradients[i] *= factor
    for i in range(values.shape[0]):
        g = gradients[i]
        m = mean[i] + taken * (g - mean[i])
        v = variance[i] * keep + take * g * g
        mean[i] = m
        variance[i] = v
        values[i] -= size * m / (np.sqrt(v) / spread + eps)


@helper
def apply_gradient(optimizer):
    """Clip the gradient and take a step, unless it is not finite; counts either way."""
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
