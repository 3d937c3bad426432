"""Random assignment of steps to minibatches."""

from __future__ import annotations

from briskrl.compiler.jit import kernel
from briskrl.core.types import Array


@kernel
def shuffle(order: Array, draws: Array) -> None:
    """Permute the first B elements of `order` by B uniform draws in [0, 1) (Fisher and Yates 1938).

    All permutations are equally likely, up to the rounding of the draws.
    """
    for i in range(draws.shape[0] - 1, 0, -1):
        j = int(draws[i] * (i + 1))
        order[i], order[j] = order[j], order[i]


@kernel
def assign_minibatches(
    draws: Array, steps: Array, bounds: Array, owner: Array, ends: Array, order: Array
) -> None:
    """Assign the first B steps to P minibatches at random; all assignments are equally likely.

    Within a minibatch the steps stay in order, because memory is faster to read in order.

    Args:
        draws: (B,) uniform in [0, 1).
        steps: Indices of the steps; at least B, like `owner` and `order`.
        bounds: (P + 1,) minibatch p becomes order[bounds[p]..bounds[p + 1]-1].
        owner: Scratch for the minibatch of every step.
        ends: (P,) scratch for how far every minibatch is filled.
        order: Indices by minibatch, written.
    """
    for p in range(ends.shape[0]):
        owner[bounds[p] : bounds[p + 1]] = p
        ends[p] = bounds[p]
    shuffle(owner, draws)
    for i in range(draws.shape[0]):
        order[ends[owner[i]]] = steps[i]
        ends[owner[i]] += 1
