"""Optimistic scores, and the choice among equals."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from briskrl.core.types import Bools
from briskrl.workflows.distances import Doubles

DELTA = 0.1
"""Probability with which the regret bound behind beta = theory may fail."""
TIE = 1e-9
"""Values that differ by less, relative to 1 plus their size, are equal."""


def beta_at(beta: float | Literal["theory"], selections: int, space_size: int) -> float:
    """Standard deviations to add at this selection, counted from 1.

    `theory` is Srinivas et al. 2010, theorem 1 (https://arxiv.org/abs/0912.3995), for a finite
    space.
    """
    if beta != "theory":
        return beta
    return math.sqrt(2 * math.log(space_size * selections**2 * math.pi**2 / (6 * DELTA)))


def first_best(values: Doubles, eligible: Bools) -> int:
    """Index of the first eligible value that is equal to the largest eligible one.

    Kernels are symmetric, so equal values are frequent; without a tolerance, rounding would decide
    between them.
    """
    best = float(values[eligible].max())
    return int(np.flatnonzero(eligible & (values >= best - TIE * (1 + abs(best))))[0])


def best_few(values: Doubles, eligible: Bools, count: int) -> list[int]:
    """Indices of the largest eligible values, largest first; equal ones by index."""
    found: list[int] = []
    left = eligible.copy()
    while left.any() and len(found) < count:
        found.append(first_best(values, left))
        left[found[-1]] = False
    return found
