"""Length scale and noise of a Gaussian process by penalized evidence on a grid.

For distances D between n observations with standardized values z, the covariance of z is
s2 * C with C = exp(-D / length) + diag(noise * relative_noise), and s2 is estimated in closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from briskrl.workflows.distances import Doubles

LENGTHS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 4.0)
NOISES = (0.01, 0.03, 0.1, 0.3, 1.0)
TYPICAL_LENGTH, LENGTH_SPREAD = 0.75, 0.75
TYPICAL_NOISE, NOISE_SPREAD = 0.1, 1.2
"""Centers and spreads, in logarithms, of the penalties on both."""
SMALLEST_SIGNAL = 1e-3
JITTERS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
"""Added to the diagonal, the next one where the one before is not enough."""


@dataclass(frozen=True, slots=True)
class GridPoint:
    """The best point of the grid."""

    length: float
    noise: float
    """Variance of the noise relative to the signal, for an observation of median size."""
    signal: float
    """Variance of the signal, s2."""
    evidence: float
    jitter: float


def best_grid_point(
    distances: Doubles, values: Doubles, relative_noise: Doubles
) -> GridPoint | None:
    """The point with the largest evidence, the first one of equals; None if no point works.

    Args:
        distances: Distances (n, n) between the observations.
        values: Standardized values (n,).
        relative_noise: Noise (n,) of each observation relative to the median one.
    """
    n = len(values)
    covariances = np.exp(-distances / np.array(LENGTHS)[:, None, None])
    noise = np.array(NOISES)[:, None] * relative_noise
    grid = np.repeat(covariances, len(NOISES), axis=0)
    grid[:, np.arange(n), np.arange(n)] += np.tile(noise, (len(LENGTHS), 1))
    log_scales, fits, jitters = _factorized(grid, values)
    signals = np.maximum(fits / n, SMALLEST_SIGNAL)
    evidence = -n / 2 * np.log(signals) - log_scales - n / 2 - _penalties()
    evidence[np.isnan(evidence)] = -np.inf
    best = int(evidence.argmax())
    if evidence[best] == -np.inf:
        return None
    length, chosen_noise = divmod(best, len(NOISES))
    return GridPoint(
        length=LENGTHS[length],
        noise=NOISES[chosen_noise],
        signal=float(signals[best]),
        evidence=float(evidence[best]),
        jitter=float(jitters[best]),
    )


def evidence_without_order(values: Doubles, relative_noise: Doubles) -> float:
    """Evidence of the same values (n,) if all orders have one score and the rest is noise."""
    n = len(values)
    center = np.average(values, weights=1 / relative_noise)
    variance = max(float(((values - center) ** 2 / relative_noise).mean()), SMALLEST_SIGNAL)
    return -n / 2 * math.log(variance) - float(np.log(relative_noise).sum()) / 2 - n / 2


def cholesky(matrix: Doubles, jitters: tuple[float, ...] = JITTERS) -> tuple[Doubles, float] | None:
    """The lower factor of a matrix with the first jitter that works, and that jitter."""
    for jitter in jitters:
        try:
            factor = np.linalg.cholesky(matrix + jitter * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            continue
        return np.asarray(factor, np.float64), jitter
    return None


def _factorized(grid: Doubles, values: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Half the log determinant, z' C^-1 z and the jitter of each matrix C; NaN where none works.

    The values are the last row of each matrix, so that the last row of its factor is L^-1 z:
    factorizing the whole grid is one call, and NumPy has no triangular solver.
    """
    n = len(values)
    bordered = np.zeros((len(grid), n + 1, n + 1))
    bordered[:, :n, :n] = grid
    bordered[:, n, :n] = values
    # Any number above z' C^-1 z, which the smallest jitter bounds.
    bordered[:, n, n] = 1 + 2 * values @ values / JITTERS[0]
    jitters = np.full(len(grid), JITTERS[0])
    diagonal = np.append(np.ones(n), 0.0)
    try:
        factors = np.linalg.cholesky(bordered + JITTERS[0] * np.diag(diagonal))
    except np.linalg.LinAlgError:
        factors = np.full_like(bordered, np.nan)
        for index, matrix in enumerate(bordered):
            found = cholesky(matrix)
            if found is not None:
                factors[index], jitters[index] = found
    scales = np.log(np.diagonal(factors, axis1=1, axis2=2)[:, :n]).sum(axis=1)
    fits = (factors[:, n, :n] ** 2).sum(axis=1)
    return scales, fits, jitters


def _penalties() -> Doubles:
    """Penalties of all grid points, lengths first."""
    by_length = [(math.log(v / TYPICAL_LENGTH) / LENGTH_SPREAD) ** 2 / 2 for v in LENGTHS]
    by_noise = [(math.log(v / TYPICAL_NOISE) / NOISE_SPREAD) ** 2 / 2 for v in NOISES]
    return np.add.outer(by_length, by_noise).ravel()
