"""Networks of dense layers as the fused engine holds them, sharing torch's parameters."""

from __future__ import annotations

import numpy as np

from briskrl.core.arrays import aligned_zeros
from briskrl.fused.kernels import ONE_AT, PADDING, Net, Optimiser, Reading, Work
from briskrl.fused.plan import Plan
from briskrl.nets.flat import FlatParameters
from briskrl.nets.guard import GuardedAdam
from briskrl.nets.inputs import MAX_DEVIATIONS, Inputs


def build_net(plan: Plan, flat: FlatParameters) -> Net:
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


def build_work(plan: Plan, flat: FlatParameters) -> Work:
    """Room for one thread to compute in."""
    dtype = flat.values.numpy().dtype
    return Work(
        out=aligned_zeros((plan.num_out,), dtype),
        slope=aligned_zeros((plan.num_out,), dtype),
        gradient=aligned_zeros((plan.num_gradient,), dtype),
    )


def build_optimiser(guard: GuardedAdam, flat: FlatParameters) -> Optimiser:
    """Torch's optimiser as kernels see it, sharing its memory."""
    adam = guard.adam
    return Optimiser(
        values=flat.values.detach().numpy(),
        gradients=flat.gradients.numpy(),
        mean=adam.mean.numpy(),
        variance=adam.variance.numpy(),
        count=adam.count.numpy().reshape(1),
        settings=np.array([adam.lr, adam.eps, guard.max_norm]),
        counters=guard.counters,
    )


def build_reading(inputs: Inputs, dtype: np.dtype[np.floating]) -> Reading:
    """How observations are read, sharing the statistics that torch's `Inputs` holds."""
    factor = 1 / 255 if inputs.scales_bytes else 1.0
    mean = scale = np.zeros(0, dtype)
    if inputs.standardise:
        mean, scale = (moments.numpy().reshape(-1) for moments in (inputs.mean, inputs.scale))
    return Reading(factor, MAX_DEVIATIONS, mean, scale)
