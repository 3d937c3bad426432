"""Networks, workspaces and optimizers as kernels see them."""

from __future__ import annotations

from typing import Any, NamedTuple

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
    GRAD_OF,
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
"""PASSES_ON: whether a layer hands gradients down to its source, as the first to do so, or as one
of several that share the source. The last to do so goes on to the gradients before the source's
activation, which is GRAD_OF; for the others, and where there is none, that is LINEAR."""
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


class InputTransform(NamedTuple):
    """How observations become numbers: times a factor, or standardized and cut off."""

    factor: float
    limit: float
    mean: Any
    """(F,), or (0,) if nothing is standardized."""
    scale: Any


class Workspace(NamedTuple):
    """Where one thread computes one tile."""

    out: Any
    """Inputs and outputs of the layers, matrices of TILE_ROWS rows."""
    out_grad: Any
    """d loss / d out, laid out alike."""
    gradient: Any
    """Sums over tiles of d loss / d weight, if that does not lie flat, and of d loss / d bias
    (OUT_ROW,)."""
    flat: Any
    """(P,) those that lie flat."""


class GradientParts(NamedTuple):
    """Where threads leave their parts of a gradient, P of them in each of S sets."""

    padded: Any
    """(S, P, G)"""
    flat: Any
    """(S, P, N), or (S, 0, N) if there is one part, which is then the optimizer's gradients."""


class Optimizer(NamedTuple):
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
