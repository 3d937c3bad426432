"""Distances between orders, from 0 to 1; exp(-distance / length) is a covariance for each of them.

The Kendall distance counts the pairs of categories that two orders rank differently. Its
exponential is the Mallows kernel (Jiao and Vert 2015, "The Kendall and Mallows kernels for
permutations"). The squared exponential of the Kendall distance is not positive definite and is
therefore not offered.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.types import Ints
from briskrl.orders.encoding import precedence_signs
from briskrl.orders.order_arrays import order_ranks

Distance = Literal["kendall", "footrule", "hamming", "mix", "weighted"]
DISTANCES: tuple[Distance, ...] = get_args(Distance)
"""In the order in which ties between kernels are resolved."""
Doubles = NDArray[np.float64]


def distances(a: Ints, b: Ints, kind: Distance, pair_counts: Doubles | None = None) -> Doubles:
    """Distances (n, k) between orders a (n, m) and b (k, m).

    Args:
        a: Orders.
        b: Orders of the same categories.
        kind: `kendall`: share of pairs ranked differently. `weighted`: the same, each pair weighted
            by its count plus 1. `footrule`: sum of rank differences relative to the largest.
            `hamming`: share of places with different categories. `mix`: mean of kendall and
            hamming.
        pair_counts: Counts (m, m), upper triangle, for `weighted`.
    """
    m = a.shape[1]
    if kind == "footrule":
        return _footrule(a, b)
    if kind == "hamming":
        return _hamming(a, b)
    kendall = _pairwise(a, b, np.ones(m * (m - 1) // 2))
    if kind == "mix":
        return (kendall + _hamming(a, b)) / 2
    if kind == "weighted":
        if pair_counts is None:
            raise ValueError("the weighted distance needs counts of pairs")
        return _pairwise(a, b, pair_counts[np.triu_indices(m, 1)] + 1)
    return kendall


def checked_pair_counts(counts: ArrayLike | None, m: int) -> Doubles | None:
    """Counts (m, m) of which only the upper triangle is used; None if there are none.

    Raises:
        ConfigError: They have another shape, are negative or not finite.
    """
    if counts is None:
        return None
    try:
        matrix = np.array(counts, np.float64)
    except (TypeError, ValueError):
        matrix = np.zeros(0)
    if matrix.shape != (m, m) or not (np.isfinite(matrix) & (matrix >= 0)).all():
        raise ConfigError(
            f"The pair counts must be {m} x {m} numbers that are not negative, one per pair of "
            "categories."
        )
    return np.triu(matrix, 1)


def _pairwise(a: Ints, b: Ints, weights: Doubles) -> Doubles:
    """Share of the weights of the pairs that are ranked differently.

    Whole weights give whole sums, so that equal orders have exactly the distance 0.
    """
    total = float(weights.sum())
    agreement = (precedence_signs(a) * weights) @ precedence_signs(b).T.astype(np.float64)
    share: Doubles = (total - agreement) / (2 * total)
    return share


def _hamming(a: Ints, b: Ints) -> Doubles:
    different = np.zeros((len(a), len(b)))
    for place in range(a.shape[1]):
        different += a[:, place, None] != b[None, :, place]
    different /= a.shape[1]
    return different


def _footrule(a: Ints, b: Ints) -> Doubles:
    ranks, others = order_ranks(a), order_ranks(b)
    total = np.zeros((len(a), len(b)))
    for category in range(a.shape[1]):
        total += np.abs(ranks[:, category, None] - others[None, :, category])
    total /= a.shape[1] ** 2 // 2
    return total
