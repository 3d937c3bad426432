"""Scores and feasibility of orders as the search models them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from briskrl.core.types import Bools, Ints
from briskrl.workflows.config import InfeasibleRule, SearcherConfig
from briskrl.workflows.distances import Doubles
from briskrl.workflows.history import History, Observations
from briskrl.workflows.surrogate import OrderSurrogate, Posterior, SurrogateError

OPTIMISM = 1.0
"""Standard deviations added to the expected compliance."""
MARGIN = 0.02
"""An optimistic compliance may miss the threshold by this much."""
FEWEST_OBSERVATIONS = 3
"""Fewest scores for a surrogate."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SearchModel:
    """What the search believes about all orders."""

    score: OrderSurrogate
    compliance: OrderSurrogate | None
    """None if compliance plays no part, or is the same everywhere and high enough."""
    threshold: float

    def with_pending(self, orders: Ints) -> SearchModel:
        """The model with hallucinated results of pending orders (k, m).

        Raises:
            SurrogateError: A covariance cannot be factorized.
        """
        if not len(orders):
            return self
        compliance = self.compliance and self.compliance.hallucinate(orders)
        return SearchModel(self.score.hallucinate(orders), compliance, self.threshold)

    def optimistic_compliance(self, orders: Ints) -> Doubles:
        """Upper estimates of the compliance of orders (n, m); ones if it plays no part."""
        if self.compliance is None:
            return np.ones(len(orders))
        posterior = self.compliance.predict(orders)
        return posterior.mean + OPTIMISM * posterior.std

    def is_admissible(self, optimistic_compliance: Doubles) -> Bools:
        """Which optimistic compliances (n,) may belong to feasible orders."""
        return optimistic_compliance >= self.threshold - MARGIN

    def predict(self, orders: Ints) -> Posterior:
        """Expected scores of orders (n, m) and their standard deviations."""
        return self.score.predict(orders)


class ModelFitter:
    """Fits the model of a search; only once per result.

    Args:
        config: Settings of the search.
        pair_counts: Counts (m, m) of pairs of categories, if there are any.
    """

    def __init__(self, config: SearcherConfig, pair_counts: Doubles | None) -> None:
        self._config = config
        self._pair_counts = pair_counts
        self._fitted: tuple[int, SearchModel | None] | None = None

    def observations(self, history: History) -> Observations:
        """What the surrogate of the scores is fitted to."""
        return modeled_observations(
            history.observations, self._config.infeasible, self._config.compliance_threshold
        )

    def model(self, history: History) -> SearchModel | None:
        """The model of all results so far; None if there are too few or no surrogate fits."""
        count = len(history.results)
        if self._fitted is None or self._fitted[0] != count:
            self._fitted = (count, self._fit(history))
        return self._fitted[1]

    def _fit(self, history: History) -> SearchModel | None:
        seen = self.observations(history)
        if len(seen) < FEWEST_OBSERVATIONS:
            return None
        threshold = self._config.compliance_threshold
        try:
            score = self._surrogate(seen, seen.scores)
            models_compliance = self._config.infeasible == "model" and not _is_settled(
                seen.compliance, threshold
            )
            compliance = self._surrogate(seen, seen.compliance) if models_compliance else None
        except SurrogateError as error:
            _log.warning("%s The next order is chosen at random.", error)
            return None
        return SearchModel(score, compliance, threshold)

    def _surrogate(self, seen: Observations, values: Doubles) -> OrderSurrogate:
        return OrderSurrogate.fit(
            seen.orders,
            values,
            seen.episodes,
            kernel=self._config.kernel,
            pair_counts=self._pair_counts,
        )


def modeled_observations(
    seen: Observations, rule: InfeasibleRule, threshold: float
) -> Observations:
    """The observations of the surrogate of the scores, under a rule for infeasible orders."""
    if rule == "skip":
        return seen.where(seen.feasible)
    if rule != "penalise" or not len(seen):
        return seen
    spread = max(1.0, float(np.ptp(seen.scores)))
    shortfall = np.maximum(0.0, threshold - seen.compliance) / threshold
    return seen.with_scores(seen.scores - spread * shortfall)


def _is_settled(compliance: Doubles, threshold: float) -> bool:
    """Whether all compliances are equal and high enough, so that every order is admissible."""
    return bool(np.ptp(compliance) == 0 and compliance[0] >= threshold)
