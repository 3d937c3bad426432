"""Running means and variances, and standardized advantages."""

from __future__ import annotations

import math

from briskrl.compiler.jit import kernel
from briskrl.core.types import Array


@kernel
def standardize(values: Array, out: Array) -> None:
    """Write `values` (B,) scaled to mean 0 and deviation 1 (unbiased) into `out`."""
    size = values.shape[0]
    if size == 1:
        out[0] = values[0]
        return
    mean = 0.0
    for i in range(size):
        mean += values[i]
    mean /= size
    squares = 0.0
    for i in range(size):
        squares += (values[i] - mean) ** 2
    scale = 1 / (math.sqrt(squares / (size - 1)) + 1e-8)
    for i in range(size):
        out[i] = (values[i] - mean) * scale


@kernel
def add_rows(rows: Array, count: float, mean: Array, squares: Array) -> None:
    """Take rows (M, F) into running moments (Welford 1962).

    Args:
        rows: What is new, any number type.
        count: How many rows the moments are of already; the caller adds M afterwards.
        mean: (F,) float64, updated.
        squares: (F,) float64 sum of squared deviations from the mean, updated.
    """
    for row in range(rows.shape[0]):
        count += 1
        share = 1 / count
        for i in range(rows.shape[1]):
            before = rows[row, i] - mean[i]
            mean[i] += before * share
            squares[i] += before * (rows[row, i] - mean[i])


@kernel
def add_returns(
    reward: Array, terminated: Array, truncated: Array, gamma: float, returns: Array, moments: Array
) -> None:
    """Take the discounted returns so far, at every step of a rollout, into running moments.

    Args:
        reward: (T, N).
        terminated: (T, N).
        truncated: (T, N).
        gamma: Discount per step.
        returns: (N,) float64 return of the episodes under way, updated.
        moments: (3,) float64 count, mean and sum of squared deviations, updated.
    """
    for t in range(reward.shape[0]):
        for n in range(reward.shape[1]):
            returns[n] = returns[n] * gamma + reward[t, n]
            moments[0] += 1
            before = returns[n] - moments[1]
            moments[1] += before / moments[0]
            moments[2] += before * (returns[n] - moments[1])
            if terminated[t, n] or truncated[t, n]:
                returns[n] = 0.0
