"""The compiled pieces: dense layers forward and backward, activations, Adam.

A network is a table of layers in order (see `plan`), each a row of whole numbers. Observations are
taken in tiles of TILE_ROWS rows; what the layers make of a tile stays in the processor's caches, in
the matrices of a Work, whose rows are padded to whole vectors. Padding is never read as a number
that counts, so whatever stands in it does no harm.

Weights are kept in torch's layout (outputs, inputs). Products forward need them the other way
round, but for those of thin layers; `pack` makes that copy after every change.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from briskrl.fused.products.intrinsics import LINEAR, RELU, TANH, Floored, Late, Matrix, Sloped
from briskrl.fused.products.kernels import FULL, STRIP_ROWS, plain, product, thin_product, turn_all
from briskrl.jit import helper, inlined, kernel, reordering, reordering_finite
from briskrl.nets.kernels import DONE, LONGEST, NORMS, RUN, SKIPPED, tanh_in_place, within

TILE_ROWS = 64

(
    INPUTS,
    OUTPUTS,
    SOURCE_AT,
    SOURCE_ROW,
    OUT_AT,
    OUT_ROW,
    WEIGHT_AT,
    BIAS_AT,
    PACKED_AT,
    GRADIENT_AT,
    GRADIENT_LIES,
    ACTIVATION,
    PASSES_ON,
    SLOPE_OF,
    SIGMA_AT,
    BIAS_SIGMA_AT,
    NOISE_AT,
    STRAIGHT_AT,
    LAYER_FIELDS,
) = range(19)
"""Columns of the table. Places are counted in numbers, from the beginning of the array that holds
that part of a layer: SOURCE and OUT in a Work, WEIGHT, BIAS and the SIGMAs among the parameters;
the last four are -1 for layers without noise."""

PADDED, TURNED, FLAT = range(3)
"""GRADIENT_LIES: how the gradient of weights is summed up, as (outputs, SOURCE_ROW), or turned as
(SOURCE_ROW, OUT_ROW) where that has the longer rows, which are faster to fill; or among the flat
gradients at once, where rows need no padding."""

NOTHING, FIRST, MORE = range(3)
"""PASSES_ON: whether a layer hands slopes down to its source, as the first to do so, or as one more
of several that share the source. The last to do so goes on to the slopes before the source's
activation, which is SLOPE_OF; for the others, and where there is none, that is LINEAR."""

MOST_DOTS = 4
"""Outputs of the widest layer that is computed by them."""
PADDING = 8
"""Rows of matrices are padded to a multiple of this many numbers: half vectors of float32."""
ONE_AT, ZEROS_AT = 0, PADDING
"""A packed array begins with a one and with zeros, for sums and for products from nothing."""


class Net(NamedTuple):
    """A network as kernels see it."""

    layers: Any
    """(L, LAYER_FIELDS) int64"""
    values: Any
    """(P,) parameters, with some numbers to spare behind them."""
    packed: Any
    """Weights (inputs, OUT_ROW), or (outputs, inputs) of thin layers, and bias (OUT_ROW,) of each
    layer, noise included."""
    straight: Any
    """Weights (outputs, inputs) with noise, of noisy layers."""
    noise: Any
    """Noise of the inputs and outputs of noisy layers."""


class Reading(NamedTuple):
    """How observations become numbers: times a factor, or standardised and cut off."""

    factor: float
    limit: float
    mean: Any
    """(F,), or (0,) if nothing is standardised."""
    scale: Any


class Work(NamedTuple):
    """Where one thread computes one tile."""

    out: Any
    """Inputs and outputs of the layers, matrices of TILE_ROWS rows."""
    slope: Any
    """d loss / d out, laid out alike."""
    gradient: Any
    """Sums over tiles of d loss / d weight, if that does not lie flat, and of d loss / d bias
    (OUT_ROW,)."""
    flat: Any
    """(P,) those that lie flat."""


class Optimiser(NamedTuple):
    """Adam's arrays; the flat ones are laid out like the parameters, (P,)."""

    values: Any
    gradients: Any
    mean: Any
    variance: Any
    count: Any
    """(1,) steps taken."""
    settings: Any
    """(3,) float64: step size, denominator offset, largest norm of gradients (0: any)."""
    counters: Any
    """(COUNTERS,) float64, see `nets.kernels`"""


@inlined
def is_thin(layer, numbers):
    """Whether a layer is computed by dot products, which is faster for as few outputs."""
    whole = layer[INPUTS] % (FULL // numbers.itemsize) == 0
    return layer[OUTPUTS] <= MOST_DOTS and whole and layer[ACTIVATION] == LINEAR


@inlined
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
            thin_product(target, rows, layer[OUTPUTS], source, weights, bias, layer[INPUTS])
            continue
        weights = Matrix(net.packed, layer[PACKED_AT], wide, 1)
        floor = out.dtype.type(0 if layer[ACTIVATION] == RELU else -math.inf)
        product(target, rows, wide, source, weights, bias, layer[INPUTS], Floored(floor))
        _activate(layer[ACTIVATION], out[layer[OUT_AT] : layer[OUT_AT] + rows * wide])


@inlined
def bias_gradient_at(layer):
    """Where the gradient of a layer's bias begins: behind that of its weights."""
    if layer[GRADIENT_LIES] == TURNED:
        return layer[GRADIENT_AT] + layer[SOURCE_ROW] * layer[OUT_ROW]
    if layer[GRADIENT_LIES] == PADDED:
        return layer[GRADIENT_AT] + layer[OUTPUTS] * layer[SOURCE_ROW]
    return layer[GRADIENT_AT]


@inlined
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
        product(dw, count, columns, left, right, start, depth, plain(dw))
        return
    product(dw, count, columns, left, right, start, middle or depth, plain(dw))
    if middle > 0:
        behind = Matrix(left.numbers, left.at + middle * left.step, left.row, left.step)
        below = Matrix(right.numbers, right.at + middle * right.row, right.row, 1)
        product(dw, count, columns, behind, below, dw, depth - middle, Late())


@helper
def backward(net, work, rows, first, middle=None):
    """Add a tile's part to the gradient, given the slopes of the last layers' outputs.

    The first tile's part replaces the gradient that stands there. If the tile has a middle, what
    comes behind it is summed up by itself: the gradient is then the one of two parts.

    With y = x W' + b: dW = dy' x, db = sum of dy's rows, dx = dy W. A source of several layers has
    the sum of what they hand down, and the slope of its own activation as a factor.
    """
    out, slope, packed = work.out, work.slope, net.packed
    one, zeros = Matrix(packed, ONE_AT, 0, 0), Matrix(packed, ZEROS_AT, 0, 1)
    for i in range(net.layers.shape[0] - 1, -1, -1):
        layer = net.layers[i]
        inputs, outputs, below, wide = (
            layer[INPUTS],
            layer[OUTPUTS],
            layer[SOURCE_ROW],
            layer[OUT_ROW],
        )
        dy = Matrix(slope, layer[OUT_AT], wide, 1)
        turned = Matrix(slope, layer[OUT_AT], 1, wide)
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
        dx = Matrix(slope, layer[SOURCE_AT], below, 1)
        if layer[NOISE_AT] < 0:
            weights = Matrix(net.values, layer[WEIGHT_AT], inputs, 1)
        else:
            weights = Matrix(net.straight, layer[STRAIGHT_AT], inputs, 1)
        start = zeros if layer[PASSES_ON] == FIRST else dx
        ending = Sloped(layer[SLOPE_OF], out)
        product(dx, rows, below, dy, weights, start, outputs, ending)


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
    turn_all(target, source, layer[OUTPUTS], layer[INPUTS])


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
            _slopes_of_noise(net, layer, gradients)


@inlined
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
    turn_all(Matrix(gradients, layer[WEIGHT_AT], inputs, 1), source, inputs, outputs)
    for part in range(1, padded.shape[0]):
        for i in range(inputs):
            at, to = layer[GRADIENT_AT] + i * wide, layer[WEIGHT_AT] + i
            for o in range(outputs):
                gradients[to + o * inputs] += padded[part, at + o]


@helper
def _slopes_of_noise(net, layer, gradients):
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


@reordering
def norm_of(gradients):
    """The Euclidean norm of a flat gradient."""
    total = gradients.dtype.type(0)
    for i in range(gradients.shape[0]):
        total += gradients[i] * gradients[i]
    return math.sqrt(total)


@reordering_finite
def _adam(optimiser, scale):
    """One step of Adam (Kingma 2015), with gradients scaled first; the order is torch's."""
    values, gradients = optimiser.values, optimiser.gradients
    mean, variance = optimiser.mean, optimiser.variance
    kind = values.dtype.type
    lr, offset, _ = optimiser.settings
    optimiser.count[0] += 1
    steps = optimiser.count[0]
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
def apply_gradient(optimiser):
    """Clip the gradient and take a step, unless it is not finite; counts either way."""
    counters = optimiser.counters
    norm = norm_of(optimiser.gradients)
    if not math.isfinite(norm):
        counters[RUN] += 1
        counters[LONGEST] = max(counters[LONGEST], counters[RUN])
        counters[SKIPPED] += 1
        return
    counters[RUN] = 0
    counters[DONE] += 1
    counters[NORMS] += norm
    limit = optimiser.settings[2]
    _adam(optimiser, limit / norm if 0 < limit < norm else 1.0)


@helper
def take_rows(reading, obs, first, rows, work, chosen=None):
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


@kernel
def pack_net(net):
    """Bring a network's packed copies up to date."""
    pack(net)
