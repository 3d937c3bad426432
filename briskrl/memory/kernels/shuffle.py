"""Shuffle steps into minibatches."""

from __future__ import annotations

from briskrl.compiler.jit import kernel
from briskrl.core.types import Array


@kernel
def shuffle(order: Array, draws: Array) -> None:
    """Bring the first B numbers of `order` into a random order, by B uniform draws in [0, 1).

    Every order is as likely as any other (Fisher and Yates 1938), but for the draws' rounding.
    """
    for i in range(draws.shape[0] - 1, 0, -1):
        j = int(draws[i] * (i + 1))
        order[i], order[j] = order[j], order[i]


@kernel
def assign_minibatches(
    draws: Array, places: Array, bounds: Array, owner: Array, ends: Array, order: Array
) -> None:
    """Deal the first B places out to P parts at random, every deal as likely as any other.

    Within a part places stay in their order: memory is faster to read in order.

    Args:
        draws: (B,) uniform in [0, 1).
        places: What is dealt; B of them or more, as of `owner` and `order`.
        bounds: (P + 1,) part p becomes order[bounds[p]..bounds[p + 1]-1].
        owner: Room for the part of every place.
        ends: (P,) room for how far parts have come.
        order: Written.
    """
    for p in range(ends.shape[0]):
        owner[bounds[p] : bounds[p + 1]] = p
        ends[p] = bounds[p]
    shuffle(owner, draws)
    for i in range(draws.shape[0]):
        order[ends[owner[i]]] = places[i]
        ends[owner[i]] += 1
