"""Strategies that choose with a surrogate: gp-ucb and thompson."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from briskrl.core.rng import derive_seed
from briskrl.core.types import Bools
from briskrl.orders.space import WorkflowSpace
from briskrl.workflows.acquisition import best_few, beta_at
from briskrl.workflows.candidates import IMPROVED, Candidates, candidates
from briskrl.workflows.choice import Candidate, Choice, ModelChoice, Phase
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.distances import Doubles
from briskrl.workflows.feasibility import FEWEST_OBSERVATIONS, ModelFitter, SearchModel
from briskrl.workflows.history import History
from briskrl.workflows.start_design import design_size, next_of_design
from briskrl.workflows.surrogate import Posterior, SurrogateError

DRAWN_JOINTLY = 1000
"""Most orders in one posterior draw, whose cost grows with the cube of their number: half of them
the best by upper confidence bound, half at random."""
SHOWN = 3
"""Candidates in the explanation of a choice."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scored:
    """Candidates as the model sees them; arrays of n rows."""

    pool: Candidates
    posterior: Posterior
    acquisition: Doubles
    standardized: Doubles
    """The acquisition in units of the spread of the scores; ties are judged by it, so that units
    of the scores make no difference."""
    optimistic_compliance: Doubles
    admissible: Bools
    beta: float

    def candidate(self, index: int) -> Candidate:
        """One of them."""
        return Candidate(
            id=int(self.pool.ids[index]),
            mean=float(self.posterior.mean[index]),
            std=float(self.posterior.std[index]),
            acquisition=float(self.acquisition[index]),
            admissible=bool(self.admissible[index]),
        )


class ModelStrategy:
    """Starts with a design, then maximizes an upper confidence bound or a posterior draw.

    Args:
        space: The space.
        config: Settings of the search.
        fitter: Fits the model.
        seed: Of everything random.
    """

    def __init__(
        self, space: WorkflowSpace, config: SearcherConfig, fitter: ModelFitter, *, seed: int
    ) -> None:
        self._space = space
        self._config = config
        self._fitter = fitter
        self._seed = seed

    def choose(self, history: History) -> Choice | None:
        """The next order; None if none may be chosen now."""
        pool = self.pool(history)
        eligible = history.eligible(pool.ids)
        if not eligible.any():
            return None
        if not self._is_designed(history, pool, eligible):
            rng = self._rng("design")
            chosen = next_of_design(self._space, history, pool, eligible, rng)
            return self._choice(pool, chosen, "design")
        try:
            chosen_by_model = self._choose_by_model(history, pool, eligible)
        except SurrogateError as error:
            _log.warning("%s The next order is chosen at random.", error)
            chosen_by_model = None
        if chosen_by_model is not None:
            return chosen_by_model
        chosen = int(self._rng(f"choice {history.asked}").choice(np.flatnonzero(eligible)))
        return self._choice(pool, chosen, "random")

    def is_exhausted(self, history: History) -> bool:
        """Whether there is nothing left to choose, whatever the pending results."""
        # More orders than any search can use up.
        if not self._space.is_enumerable:
            return False
        return not history.open_ids(self.pool(history).ids).any()

    def pool(self, history: History) -> Candidates:
        """The candidates of this round."""
        space, seen = self._space, history.observations
        if space.is_enumerable:
            return candidates(space, seen.orders, seen.orders, self._rng("unused"))
        best = seen.scores
        model = self._fitter.model(history)
        if model is not None:
            best = model.predict(seen.orders).mean
        by_rank = np.lexsort((seen.ids, -best, ~seen.feasible))[:IMPROVED]
        rng = self._rng(f"candidates {history.asked}")
        return candidates(space, seen.orders, seen.orders[by_rank], rng)

    def score(self, history: History, pool: Candidates) -> Scored | None:
        """The candidates with upper confidence bounds; None without a model.

        Raises:
            SurrogateError: A covariance cannot be factorized.
        """
        model = self._fitter.model(history)
        if model is None:
            return None
        return self._bounded(_with_pending(model, history), pool, history.asked + 1)

    def _is_designed(self, history: History, pool: Candidates, eligible: Bools) -> bool:
        """Whether the design is complete, or nothing of it is left to evaluate."""
        seen = len(self._fitter.observations(history))
        fresh = eligible & ~np.isin(pool.ids, list(history.tried()))
        enough = seen >= design_size(self._space) or not fresh.any()
        return enough and seen >= FEWEST_OBSERVATIONS

    def _choose_by_model(
        self, history: History, pool: Candidates, eligible: Bools
    ) -> Choice | None:
        """The admissible candidate with the best acquisition, or else the most compliant one."""
        fitted = self._fitter.model(history)
        if fitted is None:
            return None
        model = _with_pending(fitted, history)
        scored = self._bounded(model, pool, history.asked + 1)
        promising = eligible & scored.admissible
        if not promising.any():
            top = best_few(scored.optimistic_compliance, eligible, SHOWN)
        elif self._config.strategy == "thompson":
            scored = _with_draw(scored, model, promising, self._rng(f"draw {history.asked}"))
            top = best_few(scored.standardized, promising & np.isfinite(scored.standardized), SHOWN)
        else:
            top = best_few(scored.standardized, promising, SHOWN)
        explained = _explained(model, scored, top, len(history.pending))
        return self._choice(pool, top[0], "model", explained)

    def _bounded(self, model: SearchModel, pool: Candidates, selection: int) -> Scored:
        beta = beta_at(self._config.beta, selection, self._space.size)
        posterior = model.predict(pool.orders)
        optimistic = model.optimistic_compliance(pool.orders)
        acquisition = posterior.mean + beta * posterior.std
        return Scored(
            pool,
            posterior,
            acquisition,
            (acquisition - model.score.center) / model.score.scale,
            optimistic,
            model.is_admissible(optimistic),
            beta,
        )

    def _choice(
        self, pool: Candidates, index: int, phase: Phase, model: ModelChoice | None = None
    ) -> Choice:
        return Choice(self._space.workflow(pool.orders[index].tolist()), phase, model)

    def _rng(self, purpose: str) -> np.random.Generator:
        return np.random.default_rng(derive_seed(self._seed, purpose))


def _with_pending(model: SearchModel, history: History) -> SearchModel:
    m = len(history.pending[0].order) if history.pending else 0
    pending = np.array([flow.order for flow in history.pending], np.int64)
    return model.with_pending(pending.reshape(-1, m) if m else pending)


def _with_draw(
    scored: Scored, model: SearchModel, promising: Bools, rng: np.random.Generator
) -> Scored:
    """The same with a joint posterior draw as acquisition; -inf where nothing was drawn."""
    indices = np.flatnonzero(promising)
    if len(indices) > DRAWN_JOINTLY:
        by_bound = indices[np.argsort(-scored.standardized[indices], kind="stable")]
        half = DRAWN_JOINTLY // 2
        indices = np.concatenate([by_bound[:half], rng.permutation(by_bound[half:])[:half]])
    draw = np.full(len(promising), -np.inf)
    draw[indices] = model.score.sample(scored.pool.orders[indices], rng)
    standardized = (draw - model.score.center) / model.score.scale
    return replace(scored, acquisition=draw, standardized=standardized)


def _explained(model: SearchModel, scored: Scored, top: list[int], pending: int) -> ModelChoice:
    parameters = model.score.parameters
    return ModelChoice(
        kernel=parameters.kernel,
        length_scale=parameters.length_scale,
        noise=parameters.noise,
        observations=model.score.observations,
        pending=pending,
        beta=scored.beta,
        chosen=scored.candidate(top[0]),
        top=tuple(map(scored.candidate, top)),
    )
