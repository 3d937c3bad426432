"""Networks of dense layers as the fused engine holds them, sharing torch's parameters."""

from __future__ import annotations

import numpy as np

from briskrl.core.types import aligned_zeros
from briskrl.fused.kernels.structs import (
    ONE_AT,
    PADDING,
    GradientParts,
    InputTransform,
    Net,
    Optimizer,
    Workspace,
)
from briskrl.fused.layer_table import LayerTable
from briskrl.nets.flat_parameters import FlatParameters
from briskrl.nets.input_scaling import MAX_DEVIATIONS, InputScaling
from briskrl.nets.safe_adam import SafeAdam


def build_net(plan: LayerTable, flat: FlatParameters) -> Net:
    """The arrays of a network; its parameters are views of torch's."""
    values = flat.values.detach().numpy()
    packed = aligned_zeros((plan.num_packed,), values.dtype)
    packed[ONE_AT] = 1
    return Net(
        layers=plan.table(),
        values=values,
        packed=packed,
        # Products read whole vectors: behind the last row there must be something to read.
        straight=aligned_zeros((plan.num_straight + PADDING,), values.dtype),
        noise=np.zeros(plan.num_noise, values.dtype),
    )


def build_gradient_parts(
    plan: LayerTable, flat: FlatParameters, sets: int, count: int
) -> GradientParts:
    """Room for so many parts of a gradient."""
    dtype, size = flat.gradients.numpy().dtype, flat.gradients.numel()
    padded = aligned_zeros((sets, count, plan.num_gradient), dtype)
    return GradientParts(padded, aligned_zeros((sets, count if count > 1 else 0, size), dtype))


def build_workspace(
    plan: LayerTable, flat: FlatParameters, parts: GradientParts, number: int, part: int
) -> Workspace:
    """Room for one thread to compute one part of a gradient in, of the set of that number."""
    dtype = parts.padded.dtype
    matrices = (aligned_zeros((plan.num_out,), dtype) for _ in range(2))
    return retarget(Workspace(*matrices, *[parts.padded] * 2), flat, parts, number, part)


def retarget(
    work: Workspace, flat: FlatParameters, parts: GradientParts, number: int, part: int
) -> Workspace:
    """The same room for another part of a gradient, for a thread that computes one at a time."""
    direct = parts.flat[number, part] if parts.flat.shape[1] else flat.gradients.numpy()
    return work._replace(gradient=parts.padded[number, part], flat=direct)


def build_optimizer(guard: SafeAdam, flat: FlatParameters) -> Optimizer:
    """Torch's optimizer as kernels see it, sharing its memory."""
    adam = guard.adam
    return Optimizer(
        values=flat.values.detach().numpy(),
        gradients=flat.gradients.numpy(),
        mean=adam.mean.numpy(),
        variance=adam.variance.numpy(),
        count=adam.count.numpy().reshape(1),
        settings=np.array([adam.lr, adam.eps, guard.max_norm]),
        counters=guard.counters,
    )


def build_input_transform(inputs: InputScaling, dtype: np.dtype[np.floating]) -> InputTransform:
    """How observations are read, sharing the statistics that torch's `InputScaling` holds."""
    factor = 1 / 255 if inputs.scales_bytes else 1.0
    mean = scale = np.zeros(0, dtype)
    if inputs.standardize:
        mean, scale = (moments.numpy().reshape(-1) for moments in (inputs.mean, inputs.scale))
    return InputTransform(factor, MAX_DEVIATIONS, mean, scale)
