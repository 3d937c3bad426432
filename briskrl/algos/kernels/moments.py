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


@kernel
def merge_moments(moments: Array, others: Array) -> None:
    """Add moments of other values to running moments (Chan 1979), in order.

    Args:
        moments: (M, 3) float64 count, mean and sum of squared deviations of M quantities, updated.
        others: (K, M, 3) what to add.
    """
    for k in range(others.shape[0]):
        for m in range(moments.shape[0]):
            count = moments[m, 0] + others[k, m, 0]
            if count > 0:
                share = others[k, m, 0] / count
                distance = others[k, m, 1] - moments[m, 1]
                moments[m, 1] += distance * share
                moments[m, 2] += others[k, m, 2] + distance * distance * share * moments[m, 0]
                moments[m, 0] = count


@kernel
def moments_at(values: Array, indices: Array, moments: Array) -> None:
    """Write count, mean and sum of squared deviations of `values` at `indices` to moments (3,)."""
    size = indices.shape[0]
    mean = 0.0
    for i in range(size):
        mean += values[indices[i]]
    mean /= size
    squares = 0.0
    for i in range(size):
        squares += (values[indices[i]] - mean) ** 2
    moments[0], moments[1], moments[2] = size, mean, squares


@kernel
def standardize_by(values: Array, moments: Array, out: Array) -> None:
    """Write `values` (B,), scaled by given moments (3,) as `standardize` does, into `out`."""
    mean = 0.0 if moments[0] == 1 else moments[1]
    scale = 1.0 if moments[0] == 1 else 1 / (math.sqrt(moments[2] / (moments[0] - 1)) + 1e-8)
    for i in range(values.shape[0]):
        out[i] = (values[i] - mean) * scale
