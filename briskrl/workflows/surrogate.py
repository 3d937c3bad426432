"""A Gaussian process over orders: what scores to expect of orders that were not evaluated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from briskrl.core.errors import BriskError
from briskrl.core.types import Ints
from briskrl.workflows.distances import DISTANCES, Distance, Doubles, distances
from briskrl.workflows.evidence import (
    JITTERS,
    GridPoint,
    best_grid_point,
    cholesky,
    evidence_without_order,
)

Kernel = Literal["auto", "kendall", "footrule", "hamming", "mix", "weighted"]
CONSTANT = 1e-12
"""Values whose spread relative to the largest is below this differ by rounding only."""
MOST_FITTED = 300
"""Most observations for the choice of kernel, length scale and noise; of more, every second or
third and so on is used. The posterior uses all of them."""
SMALLEST_VARIANCE = 1e-12


class SurrogateError(BriskError):
    """No kernel, length scale and noise give a covariance that can be factorized."""


@dataclass(frozen=True, slots=True)
class SurrogateParameters:
    """The prior of a surrogate."""

    kernel: Distance
    length_scale: float
    noise: float
    """Variance of the noise relative to the signal, for an observation of median size."""
    signal: float
    """Variance of the signal in units of the variance of the scores."""
    jitter: float = JITTERS[0]


@dataclass(frozen=True, slots=True)
class Posterior:
    """Mean and standard deviation of the score of each of n orders, (n,)."""

    mean: Doubles
    std: Doubles


class OrderSurrogate:
    """A Gaussian process over orders, conditioned on scores.

    `OrderSurrogate.fit` makes one and chooses its parameters; the constructor takes them as they
    are. A surrogate never changes.

    Args:
        orders: Evaluated orders (n, m), without repetitions.
        scores: Their scores (n,).
        parameters: The prior.
        relative_noise: Noise of each score relative to the median one, (n,); ones by default.
        center: Subtracted from the scores; their prior mean.
        scale: The rest is divided by it.
        pair_counts: Counts (m, m) of pairs of categories, for the kernel `weighted`.
        evidence: Penalized evidence of the parameters, if they were fitted.
        evidence_gain: How much that exceeds the evidence of a model in which all orders have the
            same score.

    Raises:
        SurrogateError: The covariance cannot be factorized.
    """

    def __init__(
        self,
        orders: Ints,
        scores: Doubles,
        parameters: SurrogateParameters,
        *,
        relative_noise: Doubles | None = None,
        center: float = 0.0,
        scale: float = 1.0,
        pair_counts: Doubles | None = None,
        evidence: float = math.nan,
        evidence_gain: float = math.nan,
    ) -> None:
        self.parameters = parameters
        self.center = center
        self.scale = scale
        self.evidence = evidence
        self.evidence_gain = evidence_gain
        self._pair_counts = pair_counts
        self._values = (scores - center) / scale
        noise = np.ones(len(orders)) if relative_noise is None else relative_noise
        self._condition(orders, noise)
        whitened = self._whitening @ self._values
        self._weights: Doubles = self._whitening.T @ whitened

    @classmethod
    def fit(
        cls,
        orders: Ints,
        scores: ArrayLike,
        episodes: ArrayLike | None = None,
        *,
        kernel: Kernel = "auto",
        pair_counts: Doubles | None = None,
    ) -> OrderSurrogate:
        """A surrogate whose kernel, length scale and noise have the largest penalized evidence.

        Args:
            orders: Evaluated orders (n, m), without repetitions.
            scores: Their scores (n,), finite.
            episodes: Number of episodes behind each score (n,): the noise falls with it.
            kernel: The kernel, or `auto` to compare all that apply.
            pair_counts: Counts (m, m) of pairs of categories, for the kernel `weighted`.

        Raises:
            SurrogateError: No parameters work.
        """
        values = np.asarray(scores, np.float64)
        relative_noise = np.ones(len(values))
        if episodes is not None:
            sizes = np.asarray(episodes, np.float64)
            relative_noise = np.median(sizes) / sizes
        center, scale = _center_and_scale(values)
        sample = slice(None, None, -(-len(values) // MOST_FITTED))
        sampled = ((values - center) / scale)[sample], relative_noise[sample]
        kernels = _compared(kernel, pair_counts)
        best = _best_kernel(orders[sample], *sampled, kernels, pair_counts)
        if best is None:
            raise SurrogateError(
                "No surrogate fits the scores: every covariance of the grid is singular."
            )
        chosen, point = best
        return cls(
            orders,
            values,
            SurrogateParameters(chosen, point.length, point.noise, point.signal, point.jitter),
            relative_noise=relative_noise,
            center=center,
            scale=scale,
            pair_counts=pair_counts,
            evidence=point.evidence,
            evidence_gain=point.evidence - evidence_without_order(*sampled),
        )

    @property
    def observations(self) -> int:
        """Number of scores that it is conditioned on."""
        return len(self._values)

    @property
    def hallucinated(self) -> int:
        """Number of orders whose score is pending."""
        return len(self._orders) - len(self._values)

    def predict(self, orders: Ints) -> Posterior:
        """Mean and standard deviation, without noise, of the scores of orders (k, m)."""
        covariance = self._covariance(orders)
        mean = covariance[: self.observations].T @ self._weights
        explained = ((self._whitening @ covariance) ** 2).sum(axis=0)
        variance = self.parameters.signal * np.maximum(1 - explained, SMALLEST_VARIANCE)
        return Posterior(self.center + self.scale * mean, self.scale * np.sqrt(variance))

    def sample(self, orders: Ints, rng: np.random.Generator) -> Doubles:
        """Scores (k,) of orders (k, m), drawn jointly from the posterior.

        Raises:
            SurrogateError: The posterior covariance cannot be factorized.
        """
        projected = self._whitening @ self._covariance(orders)
        prior = self._kernel(orders, orders)
        factored = cholesky(prior - projected.T @ projected)
        if factored is None:
            raise SurrogateError("The posterior covariance of the orders is singular.")
        deviation = factored[0] @ rng.standard_normal(len(orders))
        deviation *= self.scale * self.parameters.signal**0.5
        return self.predict(orders).mean + deviation

    def hallucinate(self, orders: Ints) -> OrderSurrogate:
        """The surrogate as if orders (k, m) had been evaluated with the scores it expects.

        Means stay as they are; standard deviations shrink near these orders.

        Raises:
            SurrogateError: The covariance cannot be factorized.
        """
        copy: OrderSurrogate = object.__new__(OrderSurrogate)
        copy.__dict__.update(self.__dict__)
        copy._condition(
            np.concatenate([self._orders, orders]), np.append(self._noise, np.ones(len(orders)))
        )
        return copy

    def _condition(self, orders: Ints, relative_noise: Doubles) -> None:
        self._orders, self._noise = orders, relative_noise
        covariance = self._kernel(orders, orders)
        covariance[np.diag_indices(len(orders))] += self.parameters.noise * relative_noise
        first = self.parameters.jitter
        factored = cholesky(covariance, (first, *(j for j in JITTERS if j > first)))
        if factored is None:
            raise SurrogateError("The covariance of the evaluated orders is singular.")
        self._whitening = np.linalg.inv(factored[0])
        """L^-1, where L L' is the covariance of the scores."""

    def _covariance(self, orders: Ints) -> Doubles:
        """Covariances (n, k) between the orders it is conditioned on and orders (k, m)."""
        return self._kernel(self._orders, orders)

    def _kernel(self, a: Ints, b: Ints) -> Doubles:
        far = distances(a, b, self.parameters.kernel, self._pair_counts)
        kernel: Doubles = np.exp(-far / self.parameters.length_scale)
        return kernel


def _compared(kernel: Kernel, pair_counts: Doubles | None) -> Sequence[Distance]:
    if kernel != "auto":
        return [kernel]
    return [kind for kind in DISTANCES if kind != "weighted" or pair_counts is not None]


def _best_kernel(
    orders: Ints,
    values: Doubles,
    relative_noise: Doubles,
    kernels: Sequence[Distance],
    pair_counts: Doubles | None,
) -> tuple[Distance, GridPoint] | None:
    """The first kernel with the largest evidence, and its grid point."""
    best: tuple[Distance, GridPoint] | None = None
    for kind in kernels:
        far = distances(orders, orders, kind, pair_counts)
        point = best_grid_point(far, values, relative_noise)
        if point is not None and (best is None or point.evidence > best[1].evidence):
            best = kind, point
    return best


def _center_and_scale(values: Doubles) -> tuple[float, float]:
    """Mean and population standard deviation; 1 for values that differ by rounding only."""
    scale = float(values.std())
    constant = scale <= CONSTANT * float(np.abs(values).max())
    return float(values.mean()), 1.0 if constant else scale
