"""Dense layers, forward and backward."""

from __future__ import annotations

import math

from briskrl.compiler.jit import helper, inline_helper
from briskrl.compiler.math import tanh_in_place, within
from briskrl.fused.kernels.gemm import STRIP_ROWS, VECTOR_BYTES, dot_gemm, gemm, plain
from briskrl.fused.kernels.gemm_tile import (
    LINEAR,
    RELU,
    TANH,
    ActivationGradEpilogue,
    AddEpilogue,
    Matrix,
    ReluEpilogue,
)
from briskrl.fused.kernels.layer_norm import normalize, normalize_backward
from briskrl.fused.kernels.structs import (
    ACTIVATION,
    FLAT,
    GRADIENT_LAYOUT,
    GRADIENT_OFFSET,
    INPUT_GRADIENT,
    INPUTS,
    MAX_DOT_OUTPUTS,
    NO_GRADIENT,
    NOISE_OFFSET,
    NOISY_OFFSET,
    ONE_OFFSET,
    OUT_OFFSET,
    OUT_STRIDE,
    OUTPUTS,
    OVERWRITE,
    PACKED_OFFSET,
    PADDED,
    PADDING,
    SOURCE_ACTIVATION,
    SOURCE_OFFSET,
    SOURCE_STRIDE,
    STATS_OFFSET,
    TRANSPOSED,
    WEIGHT_OFFSET,
    ZEROS_OFFSET,
)


@inline_helper
def uses_dot_products(layer, array):
    """Whether a layer is computed by dot products, which is faster for few outputs."""
    whole = layer[INPUTS] % (VECTOR_BYTES // array.itemsize) == 0
    return layer[OUTPUTS] <= MAX_DOT_OUTPUTS and whole and layer[ACTIVATION] == LINEAR


@inline_helper
def _activate(kind, values):
    """Apply an activation that the epilogue of `gemm` does not cover."""
    if kind == TANH:
        if values.itemsize == 4:
            tanh_in_place(values)
        else:
            for i in range(values.shape[0]):
                values[i] = math.tanh(values[i])


@helper
def forward(net, layers, work, rows):
    """Compute the outputs of some layers for a tile: y = activation(x W' + b), or normalized."""
    out = work.out
    for i in range(layers.shape[0]):
        layer = layers[i]
        wide = layer[OUT_STRIDE]
        if layer[STATS_OFFSET] >= 0:
            normalize(layer, net.packed, out, rows)
            _activate(layer[ACTIVATION], out[layer[OUT_OFFSET] : layer[OUT_OFFSET] + rows * wide])
            continue
        bias = Matrix(net.packed, layer[PACKED_OFFSET] + layer[INPUTS] * wide, 0, 1)
        source = Matrix(out, layer[SOURCE_OFFSET], layer[SOURCE_STRIDE], 1)
        target = Matrix(out, layer[OUT_OFFSET], wide, 1)
        if uses_dot_products(layer, out):
            weights = Matrix(net.packed, layer[PACKED_OFFSET], layer[INPUTS], 1)
            dot_gemm(target, rows, layer[OUTPUTS], source, weights, bias, layer[INPUTS])
            continue
        weights = Matrix(net.packed, layer[PACKED_OFFSET], wide, 1)
        floor = out.dtype.type(0 if layer[ACTIVATION] == RELU else -math.inf)
        gemm(target, rows, wide, source, weights, bias, layer[INPUTS], ReluEpilogue(floor))
        _activate(layer[ACTIVATION], out[layer[OUT_OFFSET] : layer[OUT_OFFSET] + rows * wide])


@inline_helper
def bias_gradient_offset(layer):
    """The offset of the gradient of a layer's bias: behind that of its weights."""
    if layer[GRADIENT_LAYOUT] == TRANSPOSED:
        return layer[GRADIENT_OFFSET] + layer[SOURCE_STRIDE] * layer[OUT_STRIDE]
    if layer[GRADIENT_LAYOUT] == PADDED:
        return layer[GRADIENT_OFFSET] + layer[OUTPUTS] * layer[SOURCE_STRIDE]
    return layer[GRADIENT_OFFSET]


@inline_helper
def pad_to_strips(rows):
    """A number of rows, rounded up to whole tiles of a wide strip."""
    return -(-rows // STRIP_ROWS) * STRIP_ROWS


@helper
def _sum_over(dw, count, columns, left, right, depth, start, middle):
    """Write start + left' right; with a middle, rows from there on are summed separately.

    Args:
        dw: Matrix (count, columns) to write to.
        count: Rows of dw.
        columns: Columns of dw.
        left: Matrix (count, depth), transposed.
        right: Matrix (depth, columns).
        depth: Rows of a tile.
        start: Matrix.
        middle: Row at which the second sum begins; 0 or None for one sum.
    """
    # If None, no code is generated for the second sum.
    if middle is None:
        gemm(dw, count, columns, left, right, start, depth, plain(dw))
        return
    gemm(dw, count, columns, left, right, start, middle or depth, plain(dw))
    if middle > 0:
        behind = Matrix(
            left.data,
            left.offset + middle * left.step,
            left.stride,
            left.step,
        )
        below = Matrix(right.data, right.offset + middle * right.stride, right.stride, 1)
        gemm(dw, count, columns, behind, below, dw, depth - middle, AddEpilogue())


@helper
def backward(net, work, rows, first, middle=None):
    """Add a tile to the gradient, given the gradients of the last layers' outputs.

    The first tile overwrites the gradient. If the tile has a middle, rows from there on are summed
    separately, so that the result equals that of two threads with a part each.

    With y = x W' + b: dW = dy' x, db = sum of dy's rows, dx = dy W. The gradient of a source of
    several layers is the sum of theirs, times the gradient of its activation.
    """
    out, grad, packed = work.out, work.out_grad, net.packed
    one, zeros = Matrix(packed, ONE_OFFSET, 0, 0), Matrix(packed, ZEROS_OFFSET, 0, 1)
    for i in range(net.layers.shape[0] - 1, -1, -1):
        layer = net.layers[i]
        if layer[STATS_OFFSET] >= 0:
            normalize_backward(layer, packed, work, rows, first, 0 if middle is None else middle)
            continue
        inputs, outputs, below, wide = (
            layer[INPUTS],
            layer[OUTPUTS],
            layer[SOURCE_STRIDE],
            layer[OUT_STRIDE],
        )
        dy = Matrix(grad, layer[OUT_OFFSET], wide, 1)
        transposed = Matrix(grad, layer[OUT_OFFSET], 1, wide)
        source = Matrix(out, layer[SOURCE_OFFSET], below, 1)
        if layer[GRADIENT_LAYOUT] == TRANSPOSED:
            dw = Matrix(work.gradient, layer[GRADIENT_OFFSET], wide, 1)
            x_transposed = Matrix(out, layer[SOURCE_OFFSET], 1, below)
            all_inputs = pad_to_strips(inputs)
            _sum_over(dw, all_inputs, wide, x_transposed, dy, rows, zeros if first else dw, middle)
        else:
            if layer[GRADIENT_LAYOUT] == FLAT:
                dw = Matrix(work.flat, layer[WEIGHT_OFFSET], below, 1)
            else:
                dw = Matrix(work.gradient, layer[GRADIENT_OFFSET], below, 1)
            _sum_over(dw, outputs, below, transposed, source, rows, zeros if first else dw, middle)
        db = Matrix(work.gradient, bias_gradient_offset(layer), 0, 1)
        _sum_over(db, 1, wide, one, dy, rows, zeros if first else db, middle)
        if layer[INPUT_GRADIENT] == NO_GRADIENT:
            continue
        dx = Matrix(grad, layer[SOURCE_OFFSET], below, 1)
        if layer[NOISE_OFFSET] < 0:
            weights = Matrix(net.values, layer[WEIGHT_OFFSET], inputs, 1)
        else:
            weights = Matrix(net.noisy_weights, layer[NOISY_OFFSET], inputs, 1)
        start = zeros if layer[INPUT_GRADIENT] == OVERWRITE else dx
        epilogue = ActivationGradEpilogue(layer[SOURCE_ACTIVATION], out)
        gemm(dx, rows, below, dy, weights, start, outputs, epilogue)


@helper
def load_rows(transform, obs, first, rows, work, indices=None):
    """Transform observations first..first+rows-1 of (N, F) into the inputs of the first layers.

    With indices, these are observations indices[first]..indices[first+rows-1].
    """
    width = obs.shape[1]
    padded = -(-width // PADDING) * PADDING
    mean, scale = transform.mean, transform.scale
    dtype = work.out.dtype.type
    factor, limit = dtype(transform.factor), dtype(transform.limit)
    for r in range(rows):
        index = first + r if indices is None else indices[first + r]
        # The compiler knows that indices into slices are not negative, and vectorizes the loops.
        source, out = obs[index], work.out[r * padded : r * padded + width]
        if mean.shape[0] == 0:
            for i in range(width):
                out[i] = source[i] * factor
        else:
            for i in range(width):
                out[i] = within(-limit, (dtype(source[i]) - mean[i]) * scale[i], limit)
