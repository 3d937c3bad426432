"""Running means and variances, and normalized advantages."""

from __future__ import annotations

import math

from briskrl.compiler.jit import kernel
from briskrl.core.types import Array


@kernel
def standardize(values: Array, out: Array) -> None:
    """Write `values` (B,), scaled to mean 0 and (unbiased) standard deviation 1, into `out`."""
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
    """Add rows (M, F) to running moments (Welford 1962).

    Args:
        rows: New rows, of any number type.
        count: Rows in the moments so far; the caller adds M afterwards.
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
    """Add the discounted return so far, at every step of a rollout, to running moments.

    Args:
        reward: (T, N).
        terminated: (T, N).
        truncated: (T, N).
        gamma: Discount per step.
        returns: (N,) float64 discounted return of the current episodes, updated.
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
