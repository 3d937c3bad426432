"""Networks, workspaces and optimizers as kernels use them."""

from __future__ import annotations

from typing import Any, NamedTuple

TILE_ROWS = 64
"""Rows that one thread computes at a time."""
(
    INPUTS,
    OUTPUTS,
    SOURCE_OFFSET,
    SOURCE_STRIDE,
    OUT_OFFSET,
    OUT_STRIDE,
    WEIGHT_OFFSET,
    BIAS_OFFSET,
    PACKED_OFFSET,
    GRADIENT_OFFSET,
    GRADIENT_LAYOUT,
    ACTIVATION,
    INPUT_GRADIENT,
    SOURCE_ACTIVATION,
    SIGMA_OFFSET,
    BIAS_SIGMA_OFFSET,
    NOISE_OFFSET,
    NOISY_OFFSET,
    STATS_OFFSET,
    LAYER_FIELDS,
) = range(20)
"""Columns of the layer table. Offsets and strides count elements. SOURCE and OUT are matrices in a
Workspace; WEIGHT, BIAS and the SIGMAs are parameters. The four after SOURCE_ACTIVATION are -1 for
layers without noise. STATS_OFFSET is -1 for dense layers; for layer normalizations it is where a
Workspace holds one over the standard deviation of every row, and WEIGHT and BIAS are the gain and
the bias (OUTPUTS,)."""
STATS_STRIDE = 8
"""Elements from one row's standard deviation to the next."""
PADDED, TRANSPOSED, FLAT = range(3)
"""GRADIENT_LAYOUT, how the gradient of weights is accumulated: as (outputs, SOURCE_STRIDE); as
(SOURCE_STRIDE, OUT_STRIDE) where that has the longer rows, which are faster to fill; or directly in
the flat gradients, where rows need no padding."""
NO_GRADIENT, OVERWRITE, ACCUMULATE = range(3)
"""INPUT_GRADIENT: whether a layer computes the gradient of its source, as the first to do so, or
adds to it as one of several layers with the same source. The last of them multiplies it with the
gradient of SOURCE_ACTIVATION, which is LINEAR for the others."""
MAX_DOT_OUTPUTS = 4
"""Outputs of the widest layer that is computed by dot products."""
PADDING = 8
"""Rows of matrices are padded to a multiple of this many elements: half vectors of float32."""
ONE_OFFSET, ZEROS_OFFSET = 0, PADDING
"""A packed array begins with a one and with zeros: factors of sums, and their initial values."""


class Net(NamedTuple):
    """The arrays of a network."""

    layers: Any
    """(L, LAYER_FIELDS) int64"""
    values: Any
    """(P,) parameters, with some elements to spare behind them."""
    packed: Any
    """Weights (inputs, OUT_STRIDE), or (outputs, inputs) of layers that are computed by dot
    products, and bias (OUT_STRIDE,) of each layer, noise included."""
    noisy_weights: Any
    """Weights (outputs, inputs) of noisy layers, noise included."""
    noise: Any
    """Noise of the inputs and outputs of noisy layers."""


class InputTransform(NamedTuple):
    """How observations become inputs: multiplied by a factor, or standardized and clipped."""

    factor: float
    limit: float
    mean: Any
    """(F,), or (0,) if inputs are not standardized."""
    scale: Any


class Workspace(NamedTuple):
    """Where one thread computes one tile."""

    out: Any
    """Inputs and outputs of the layers, matrices of TILE_ROWS rows."""
    out_grad: Any
    """d loss / d out, with the same layout."""
    gradient: Any
    """Sums over tiles of d loss / d weight, unless its layout is FLAT, and of d loss / d bias
    (OUT_STRIDE,)."""
    flat: Any
    """(P,) the gradients of weights whose layout is FLAT."""


class GradientParts(NamedTuple):
    """Where threads leave their parts of a gradient, P parts in each of S sets."""

    padded: Any
    """(S, P, G)"""
    flat: Any
    """(S, P, N), or (S, 0, N) if there is one part, which is then the optimizer's gradients."""


class Optimizer(NamedTuple):
    """The arrays of Adam; flat ones have the layout of the parameters, (P,)."""

    values: Any
    gradients: Any
    mean: Any
    variance: Any
    count: Any
    """(1,) steps taken."""
    settings: Any
    """(3,) float64: learning rate, epsilon, largest gradient norm (0: any)."""
    counters: Any
    """(COUNTERS,) float64, see `nets.update_counters`"""
