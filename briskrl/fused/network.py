"""The arrays of the fused engine for a network of dense layers, sharing torch's parameters."""

from __future__ import annotations

import numpy as np

from briskrl.core.types import aligned_zeros
from briskrl.fused.kernels.structs import (
    ONE_OFFSET,
    PADDING,
    GradientParts,
    InputTransform,
    Net,
    Optimizer,
    Workspace,
)
from briskrl.fused.layer_table import LayerTable
from briskrl.nets.bodies import MAX_DEVIATIONS, InputScaling
from briskrl.nets.flat_parameters import FlatParameters
from briskrl.nets.safe_adam import SafeAdam


def build_net(table: LayerTable, flat: FlatParameters) -> Net:
    """The arrays of a network; its parameters are views of torch's."""
    values = flat.values.detach().numpy()
    packed = aligned_zeros((table.num_packed,), values.dtype)
    packed[ONE_OFFSET] = 1
    return Net(
        layers=table.table(),
        values=values,
        packed=packed,
        # Products read whole vectors, also past the end of the last row.
        noisy_weights=aligned_zeros((table.num_noisy + PADDING,), values.dtype),
        noise=np.zeros(table.num_noise, values.dtype),
    )


def build_gradient_parts(
    table: LayerTable, flat: FlatParameters, sets: int, count: int
) -> GradientParts:
    """Memory for `count` parts of a gradient in each of several sets."""
    dtype, size = flat.gradients.numpy().dtype, flat.gradients.numel()
    padded = aligned_zeros((sets, count, table.num_gradient), dtype)
    return GradientParts(padded, aligned_zeros((sets, count if count > 1 else 0, size), dtype))


def build_workspace(
    table: LayerTable, flat: FlatParameters, parts: GradientParts, number: int, part: int
) -> Workspace:
    """Memory for one thread to compute one part of a gradient, of the set of that number."""
    dtype = parts.padded.dtype
    matrices = (aligned_zeros((table.num_out,), dtype) for _ in range(2))
    return retarget(Workspace(*matrices, *[parts.padded] * 2), flat, parts, number, part)


def retarget(
    workspace: Workspace, flat: FlatParameters, parts: GradientParts, number: int, part: int
) -> Workspace:
    """The same memory for another part of a gradient, for a thread that computes one at a time."""
    direct = parts.flat[number, part] if parts.flat.shape[1] else flat.gradients.numpy()
    return workspace._replace(gradient=parts.padded[number, part], flat=direct)


def build_optimizer(guard: SafeAdam, flat: FlatParameters) -> Optimizer:
    """The arrays of torch's optimizer, shared."""
    adam = guard.adam
    return Optimizer(
        values=flat.values.detach().numpy(),
        gradients=flat.gradients.numpy(),
        mean=adam.mean.numpy(),
        variance=adam.variance.numpy(),
        count=adam.count.numpy().reshape(1),
        settings=np.array([adam.lr, adam.eps, guard.max_norm, adam.beta2]),
        counters=guard.counters,
    )


def build_input_transform(inputs: InputScaling, dtype: np.dtype[np.floating]) -> InputTransform:
    """How observations are transformed, sharing the statistics of torch's `InputScaling`."""
    factor = 1 / 255 if inputs.scales_bytes else 1.0
    mean = scale = np.zeros(0, dtype)
    if inputs.standardize:
        mean, scale = (moments.numpy().reshape(-1) for moments in (inputs.mean, inputs.scale))
    return InputTransform(factor, MAX_DEVIATIONS, mean, scale)
