"""Layer normalization (Ba 2016, https://arxiv.org/abs/1607.06450) of a tile, forward and backward.

The torch counterpart is `torch.nn.LayerNorm`. A normalization is a row of the layer table of its
own: its source is the output of a dense layer without activation, which `normalize` overwrites with
the normalized values z, because nothing else reads it and the backward pass needs them.
"""

from __future__ import annotations

import math

from briskrl.compiler.jit import fastmath_helper, helper, inline_helper
from briskrl.fused.kernels.gemm_tile import RELU
from briskrl.fused.kernels.structs import (
    ACTIVATION,
    GRADIENT_OFFSET,
    OUT_OFFSET,
    OUT_STRIDE,
    OUTPUTS,
    PACKED_OFFSET,
    SOURCE_OFFSET,
    SOURCE_STRIDE,
    STATS_OFFSET,
    STATS_STRIDE,
)

EPSILON = 1e-5
"""Added to the variance, as in torch."""


@fastmath_helper
def _center(row):
    """Subtract the mean from a row; returns one over its standard deviation."""
    total = row.dtype.type(0)
    for i in range(row.shape[0]):
        total += row[i]
    mean = row.dtype.type(total / row.shape[0])
    squares = row.dtype.type(0)
    for i in range(row.shape[0]):
        row[i] -= mean
        squares += row[i] * row[i]
    return row.dtype.type(1 / math.sqrt(squares / row.shape[0] + EPSILON))


@fastmath_helper
def _scale_and_shift(z, scale, gain, bias, floor, out):
    """Multiply centered values by their scale, and write max(floor, gain * z + bias)."""
    for i in range(z.shape[0]):
        z[i] *= scale
        out[i] = max(floor, gain[i] * z[i] + bias[i])


@inline_helper
def _views(layer, data):
    """The gain and the bias of a normalization in a packed array, or their gradients."""
    at, width, wide = layer[PACKED_OFFSET], layer[OUTPUTS], layer[OUT_STRIDE]
    return data[at : at + width], data[at + wide : at + wide + width]


@helper
def normalize(layer, packed, out, rows):
    """Compute y = activation(gain * z + bias) for a tile; tanh is left to the caller."""
    width, below, wide = layer[OUTPUTS], layer[SOURCE_STRIDE], layer[OUT_STRIDE]
    gain, bias = _views(layer, packed)
    floor = out.dtype.type(0 if layer[ACTIVATION] == RELU else -math.inf)
    for r in range(rows):
        source, target = layer[SOURCE_OFFSET] + r * below, layer[OUT_OFFSET] + r * wide
        z = out[source : source + width]
        scale = _center(z)
        out[layer[STATS_OFFSET] + r * STATS_STRIDE] = scale
        _scale_and_shift(z, scale, gain, bias, floor, out[target : target + width])


@fastmath_helper
def _source_gradient(dy, z, gain, scale, dx):
    """Write dx = scale * (g - mean(g) - z * mean(g z)) with g = dy * gain."""
    count = z.shape[0]
    total, along = z.dtype.type(0), z.dtype.type(0)
    for i in range(count):
        g = dy[i] * gain[i]
        total += g
        along += g * z[i]
    mean, slope = z.dtype.type(total / count), z.dtype.type(along / count)
    for i in range(count):
        dx[i] = scale * (dy[i] * gain[i] - mean - z[i] * slope)


@fastmath_helper
def _add_four_rows(out, source, below, grad, target, wide, gain_sum, bias_sum):
    """Add dy * z and dy of four rows at once, which saves most of the loads and stores."""
    width = gain_sum.shape[0]
    z0, d0 = out[source : source + width], grad[target : target + width]
    source, target = source + below, target + wide
    z1, d1 = out[source : source + width], grad[target : target + width]
    source, target = source + below, target + wide
    z2, d2 = out[source : source + width], grad[target : target + width]
    source, target = source + below, target + wide
    z3, d3 = out[source : source + width], grad[target : target + width]
    for i in range(width):
        gain_sum[i] += (d0[i] * z0[i] + d1[i] * z1[i]) + (d2[i] * z2[i] + d3[i] * z3[i])
    for i in range(width):
        bias_sum[i] += (d0[i] + d1[i]) + (d2[i] + d3[i])


@helper
def _add_parameter_gradients(layer, work, begin, end, overwrite):
    """Add rows begin..end-1 to the gradients of gain and bias, or overwrite those with them."""
    width, below, wide = layer[OUTPUTS], layer[SOURCE_STRIDE], layer[OUT_STRIDE]
    at = layer[GRADIENT_OFFSET]
    gain_grad = work.gradient[at : at + width]
    bias_grad = work.gradient[at + wide : at + wide + width]
    # Two more rows hold the sums of this call: parts are added up in the order of two threads.
    gain_sum = work.gradient[at + 2 * wide : at + 2 * wide + width]
    bias_sum = work.gradient[at + 3 * wide : at + 3 * wide + width]
    for i in range(width):
        gain_sum[i] = 0
        bias_sum[i] = 0
    whole = begin + (end - begin) // 4 * 4
    for r in range(begin, whole, 4):
        source, target = layer[SOURCE_OFFSET] + r * below, layer[OUT_OFFSET] + r * wide
        _add_four_rows(work.out, source, below, work.out_grad, target, wide, gain_sum, bias_sum)
    for r in range(whole, end):
        source, target = layer[SOURCE_OFFSET] + r * below, layer[OUT_OFFSET] + r * wide
        z, dy = work.out[source : source + width], work.out_grad[target : target + width]
        for i in range(width):
            gain_sum[i] += dy[i] * z[i]
            bias_sum[i] += dy[i]
    for i in range(width):
        gain_grad[i] = gain_sum[i] if overwrite else gain_grad[i] + gain_sum[i]
        bias_grad[i] = bias_sum[i] if overwrite else bias_grad[i] + bias_sum[i]


@helper
def normalize_backward(layer, packed, work, rows, first, middle):
    """Add a tile to the gradients of gain and bias, and write that of the source.

    See `layers.backward` for `first` and `middle`.
    """
    width, below, wide = layer[OUTPUTS], layer[SOURCE_STRIDE], layer[OUT_STRIDE]
    gain, _ = _views(layer, packed)
    if middle > 0:
        _add_parameter_gradients(layer, work, 0, middle, first)
        _add_parameter_gradients(layer, work, middle, rows, False)
    else:
        _add_parameter_gradients(layer, work, 0, rows, first)
    for r in range(rows):
        source, target = layer[SOURCE_OFFSET] + r * below, layer[OUT_OFFSET] + r * wide
        _source_gradient(
            work.out_grad[target : target + width],
            work.out[source : source + width],
            gain,
            work.out[layer[STATS_OFFSET] + r * STATS_STRIDE],
            work.out_grad[source : source + width],
        )
