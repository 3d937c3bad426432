"""Dense layers, forward and backward."""

from __future__ import annotations

import math

from briskrl.compiler.jit import helper, inline_helper
from briskrl.compiler.math import tanh_in_place, within
from briskrl.fused.kernels.gemm import FULL, STRIP_ROWS, gemm, plain, thin_gemm
from briskrl.fused.kernels.gemm_tile import (
    LINEAR,
    RELU,
    TANH,
    ActivationGradEpilogue,
    AddEpilogue,
    Matrix,
    ReluEpilogue,
)
from briskrl.fused.kernels.structs import (
    ACTIVATION,
    FIRST,
    FLAT,
    GRAD_OF,
    GRADIENT_AT,
    GRADIENT_LIES,
    INPUTS,
    MOST_DOTS,
    NOISE_AT,
    NOTHING,
    ONE_AT,
    OUT_AT,
    OUT_ROW,
    OUTPUTS,
    PACKED_AT,
    PADDED,
    PADDING,
    PASSES_ON,
    SOURCE_AT,
    SOURCE_ROW,
    STRAIGHT_AT,
    TURNED,
    WEIGHT_AT,
    ZEROS_AT,
)


@inline_helper
def is_thin(layer, numbers):
    """Whether a layer is computed by dot products, which is faster for as few outputs."""
    whole = layer[INPUTS] % (FULL // numbers.itemsize) == 0
    return layer[OUTPUTS] <= MOST_DOTS and whole and layer[ACTIVATION] == LINEAR


@inline_helper
def _activate(kind, values):
    """What activations do besides a floor under their inputs."""
    if kind == TANH:
        if values.itemsize == 4:
            tanh_in_place(values)
        else:
            for i in range(values.shape[0]):
                values[i] = math.tanh(values[i])


@helper
def forward(net, layers, work, rows):
    """Compute some layers' outputs of a tile: y = activation(x W' + b)."""
    out = work.out
    for i in range(layers.shape[0]):
        layer = layers[i]
        wide = layer[OUT_ROW]
        bias = Matrix(net.packed, layer[PACKED_AT] + layer[INPUTS] * wide, 0, 1)
        source = Matrix(out, layer[SOURCE_AT], layer[SOURCE_ROW], 1)
        target = Matrix(out, layer[OUT_AT], wide, 1)
        if is_thin(layer, out):
            weights = Matrix(net.packed, layer[PACKED_AT], layer[INPUTS], 1)
            thin_gemm(target, rows, layer[OUTPUTS], source, weights, bias, layer[INPUTS])
            continue
        weights = Matrix(net.packed, layer[PACKED_AT], wide, 1)
        floor = out.dtype.type(0 if layer[ACTIVATION] == RELU else -math.inf)
        gemm(target, rows, wide, source, weights, bias, layer[INPUTS], ReluEpilogue(floor))
        _activate(layer[ACTIVATION], out[layer[OUT_AT] : layer[OUT_AT] + rows * wide])


@inline_helper
def bias_gradient_at(layer):
    """Where the gradient of a layer's bias begins: behind that of its weights."""
    if layer[GRADIENT_LIES] == TURNED:
        return layer[GRADIENT_AT] + layer[SOURCE_ROW] * layer[OUT_ROW]
    if layer[GRADIENT_LIES] == PADDED:
        return layer[GRADIENT_AT] + layer[OUTPUTS] * layer[SOURCE_ROW]
    return layer[GRADIENT_AT]


@inline_helper
def whole_strips(rows):
    """So many rows and the padding that fills the last tile of a wide strip."""
    return -(-rows // STRIP_ROWS) * STRIP_ROWS


@helper
def _sum_over(dw, count, columns, left, right, depth, start, middle):
    """Write start + left' right, or with a middle the sum of that and of what comes behind it.

    Args:
        dw: Matrix to write to, of so many rows and columns.
        count: Those rows.
        columns: Those columns.
        left: Matrix (count, depth), turned.
        right: Matrix (depth, columns).
        depth: Rows of a tile.
        start: Matrix.
        middle: Row from which on there is a sum of its own; 0 or None if there is none.
    """
    # Of what is never asked for, None, the compiler makes no code.
    if middle is None:
        gemm(dw, count, columns, left, right, start, depth, plain(dw))
        return
    gemm(dw, count, columns, left, right, start, middle or depth, plain(dw))
    if middle > 0:
        behind = Matrix(left.numbers, left.at + middle * left.step, left.row, left.step)
        below = Matrix(right.numbers, right.at + middle * right.row, right.row, 1)
        gemm(dw, count, columns, behind, below, dw, depth - middle, AddEpilogue())


@helper
def backward(net, work, rows, first, middle=None):
    """Add a tile's part to the gradient, given the gradients of the last layers' outputs.

    The first tile's part replaces the gradient that stands there. If the tile has a middle, what
    comes behind it is summed up by itself: the gradient is then the one of two parts.

    With y = x W' + b: dW = dy' x, db = sum of dy's rows, dx = dy W. A source of several layers has
    the sum of what they hand down, and the grad of its own activation as a factor.
    """
    out, grad, packed = work.out, work.out_grad, net.packed
    one, zeros = Matrix(packed, ONE_AT, 0, 0), Matrix(packed, ZEROS_AT, 0, 1)
    for i in range(net.layers.shape[0] - 1, -1, -1):
        layer = net.layers[i]
        inputs, outputs, below, wide = (
            layer[INPUTS],
            layer[OUTPUTS],
            layer[SOURCE_ROW],
            layer[OUT_ROW],
        )
        dy = Matrix(grad, layer[OUT_AT], wide, 1)
        turned = Matrix(grad, layer[OUT_AT], 1, wide)
        source = Matrix(out, layer[SOURCE_AT], below, 1)
        if layer[GRADIENT_LIES] == TURNED:
            dw = Matrix(work.gradient, layer[GRADIENT_AT], wide, 1)
            across = Matrix(out, layer[SOURCE_AT], 1, below)
            all_inputs = whole_strips(inputs)
            _sum_over(dw, all_inputs, wide, across, dy, rows, zeros if first else dw, middle)
        else:
            if layer[GRADIENT_LIES] == FLAT:
                dw = Matrix(work.flat, layer[WEIGHT_AT], below, 1)
            else:
                dw = Matrix(work.gradient, layer[GRADIENT_AT], below, 1)
            _sum_over(dw, outputs, below, turned, source, rows, zeros if first else dw, middle)
        db = Matrix(work.gradient, bias_gradient_at(layer), 0, 1)
        _sum_over(db, 1, wide, one, dy, rows, zeros if first else db, middle)
        if layer[PASSES_ON] == NOTHING:
            continue
        dx = Matrix(grad, layer[SOURCE_AT], below, 1)
        if layer[NOISE_AT] < 0:
            weights = Matrix(net.values, layer[WEIGHT_AT], inputs, 1)
        else:
            weights = Matrix(net.straight, layer[STRAIGHT_AT], inputs, 1)
        start = zeros if layer[PASSES_ON] == FIRST else dx
        ending = ActivationGradEpilogue(layer[GRAD_OF], out)
        gemm(dx, rows, below, dy, weights, start, outputs, ending)


@helper
def load_rows(reading, obs, first, rows, work, chosen=None):
    """Put observations first..first+rows-1 of (N, F) where the first layers find them.

    Or those chosen[first], chosen[first + 1]... if that is given.
    """
    width = obs.shape[1]
    padded = -(-width // PADDING) * PADDING
    mean, scale = reading.mean, reading.scale
    kind = work.out.dtype.type
    factor, limit = kind(reading.factor), kind(reading.limit)
    for r in range(rows):
        at = first + r if chosen is None else chosen[first + r]
        # Indices into slices are never negative to the compiler, which then makes vectors of them.
        source, out = obs[at], work.out[r * padded : r * padded + width]
        if mean.shape[0] == 0:
            for i in range(width):
                out[i] = source[i] * factor
        else:
            for i in range(width):
                out[i] = within(-limit, (kind(source[i]) - mean[i]) * scale[i], limit)
