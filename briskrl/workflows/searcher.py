"""Search for the best order: ask for orders to evaluate, tell their scores.

It evaluates nothing itself, so it serves any expensive problem whose answer is an order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from briskrl.core.errors import ConfigError
from briskrl.core.types import JSON
from briskrl.orders.space import WorkflowSpace
from briskrl.orders.workflow import Workflow
from briskrl.workflows.choice import Choice
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.distances import checked_pair_counts
from briskrl.workflows.feasibility import ModelFitter, SearchModel
from briskrl.workflows.history import History, OrderResult
from briskrl.workflows.model_strategy import ModelStrategy, Scored
from briskrl.workflows.order_effect import MIN_CONTESTED, OrderEffect, order_effect
from briskrl.workflows.ranking import RankedOrder, ranked_orders
from briskrl.workflows.search_state import SavedResult, SavedSearch
from briskrl.workflows.sequences import exhaustive, listed, uniform
from briskrl.workflows.tpe_strategy import TpeStrategy


class SearchStrategy(Protocol):
    """Chooses orders. It has no state besides the history, so a restored search continues alike."""

    def choose(self, history: History) -> Choice | None:
        """The next order; None if none may be chosen now."""
        ...

    def is_exhausted(self, history: History) -> bool:
        """Whether there is nothing left to choose, whatever the pending results."""
        ...


class Searcher:
    """Proposes orders to evaluate and learns from their scores.

    The proposals depend only on the arguments and on the calls so far: the same seed and the same
    results give the same proposals, and so does a search that was saved and restored in between.

    Args:
        space: The orders to search.
        config: How to search.
        seed: Of everything random.
        pair_counts: How often two categories were in competition, (m, m); only the upper triangle
            counts. It enables the kernel `weighted`.

    Raises:
        ConfigError: The settings do not fit together.
    """

    def __init__(
        self,
        space: WorkflowSpace,
        config: SearcherConfig | None = None,
        *,
        seed: int = 0,
        pair_counts: ArrayLike | None = None,
    ) -> None:
        self.space = space
        self.config = config or SearcherConfig()
        self.seed = seed
        self._pair_counts = checked_pair_counts(pair_counts, space.m)
        _check(self.config, has_pair_counts=self._pair_counts is not None)
        self._fitter = ModelFitter(self.config, self._pair_counts)
        self._model_strategy = ModelStrategy(space, self.config, self._fitter, seed=seed)
        self._strategy = _strategy(space, self.config, seed, self._model_strategy)
        self._history = History(
            space.m,
            threshold=self.config.compliance_threshold,
            # A single order cannot be compared with anything, so repeating it is of no use.
            max_visits=self.config.max_visits if space.size > 1 else 1,
            bar_infeasible=self.config.infeasible == "skip",
        )

    def ask(self, count: int = 1) -> list[Choice]:
        """Up to `count` orders to evaluate; they stay pending until their results are given.

        It returns fewer, or none, if the search has ended or if everything that is left is
        pending.
        """
        found: list[Choice] = []
        while len(found) < count and self.stop_reason is None:
            choice = self._strategy.choose(self._history)
            if choice is None:
                break
            self._history.add_pending(choice.workflow)
            found.append(choice)
        return found

    def tell(self, result: OrderResult) -> None:
        """Give the result of an order; it need not have been asked for.

        Raises:
            ConfigError: The order is not in the space, or a number is impossible.
        """
        if result.workflow not in self.space:
            raise ConfigError(f"The workflow {result.workflow} is not in the space of the search.")
        self._history.add(result)

    def withdraw(self, workflow: Workflow) -> None:
        """Take back a pending order that will not be evaluated; it may be chosen again.

        Raises:
            ConfigError: The order is not pending.
        """
        if workflow not in self._history.pending:
            raise ConfigError(f"The workflow {workflow} is not pending.")
        self._history.drop_pending(workflow)

    @property
    def results(self) -> tuple[OrderResult, ...]:
        """All results so far."""
        return tuple(self._history.results)

    @property
    def pending(self) -> tuple[Workflow, ...]:
        """Orders that were asked for and have no result."""
        return tuple(self._history.pending)

    @property
    def stop_reason(self) -> str | None:
        """Why nothing more will be proposed: max-workflows, exhausted or tolerance; None if not."""
        most = self.config.max_workflows
        if most is not None and len(self._history.results) + len(self._history.pending) >= most:
            return "max-workflows"
        if self._strategy.is_exhausted(self._history):
            return "exhausted"
        if self._strategy is self._model_strategy and self._is_good_enough():
            return "tolerance"
        return None

    @property
    def model(self) -> SearchModel | None:
        """The surrogates fitted to all results; None if there are too few."""
        return self._fitter.model(self._history)

    def posterior(self) -> Scored | None:
        """What the model believes about the whole space, or about candidates of a large one."""
        return self._model_strategy.score(self._history, self._model_strategy.pool(self._history))

    def ranking(self) -> list[RankedOrder]:
        """All orders with a score, the recommended one first."""
        ignore = self.config.infeasible == "ignore"
        return ranked_orders(self.space, self._history, self.model, ignore_feasibility=ignore)

    def recommend(self) -> RankedOrder | None:
        """The best order so far; if none is feasible, the most compliant one; None without scores.

        Only evaluated orders are recommended.
        """
        return next(iter(self.ranking()), None)

    def order_effect(
        self, *, min_contested: float = MIN_CONTESTED, pair_counts: ArrayLike | None = None
    ) -> OrderEffect:
        """Whether the order matters at all.

        Args:
            min_contested: Smallest share of decisions at which the order must make a difference.
            pair_counts: Other counts than those of the search, to name uncontested pairs by.
        """
        counted = checked_pair_counts(pair_counts, self.space.m)
        best = self.recommend()
        latest = None if best is None else self._history.latest(best.workflow.id)
        return order_effect(
            self.space.categories,
            self._model_strategy.pool(self._history).orders,
            self._fitter.observations(self._history),
            self.model,
            contested_share=None if latest is None else latest.contested_share,
            pair_counts=self._pair_counts if counted is None else counted,
            min_contested=min_contested,
        )

    def state(self) -> dict[str, JSON]:
        """The whole search as JSON, for `from_state`."""
        history = self._history
        return SavedSearch(
            categories=self.space.categories,
            require=self.space.require,
            named={name: flow.id for name, flow in self.space.named.items()},
            config=self.config,
            seed=self.seed,
            pair_counts=None if self._pair_counts is None else self._pair_counts.tolist(),
            asked=history.asked,
            last=history.last,
            pending=tuple(flow.id for flow in history.pending),
            results=tuple(map(SavedResult.of, history.results)),
        ).as_json()

    @classmethod
    def from_state(cls, state: JSON) -> Searcher:
        """The search that `state` returned; it continues as if it had not been interrupted.

        Raises:
            InvalidStateError: It is not such a state.
        """
        return SavedSearch.from_json(state).restored(cls._restored)

    @classmethod
    def _restored(cls, saved: SavedSearch) -> Searcher:
        categories = saved.categories
        named = {name: Workflow.from_id(categories, i).order for name, i in saved.named.items()}
        space = WorkflowSpace(categories, require=saved.require, named=named)
        searcher = cls(space, saved.config, seed=saved.seed, pair_counts=saved.pair_counts)
        for result in saved.results:
            searcher.tell(result.restored(space))
        history = searcher._history
        history.pending = [space.from_id(number) for number in saved.pending]
        history.asked, history.last = saved.asked, saved.last
        return searcher

    def __reduce__(self) -> tuple[Callable[[JSON], Searcher], tuple[JSON]]:
        return Searcher.from_state, (self.state(),)

    def _is_good_enough(self) -> bool:
        """Whether no untried order may beat the best one by more than the tolerance."""
        if self.config.tolerance is None:
            return False
        scored = self.posterior()
        if scored is None:
            return False
        evaluated = np.isin(scored.pool.ids, self._history.observations.ids)
        untried = scored.admissible & ~evaluated
        seen = scored.posterior
        sure = (seen.mean - scored.beta * seen.std)[evaluated & scored.admissible]
        best = float(sure.max()) if len(sure) else -math.inf
        hope = scored.acquisition[untried]
        return not len(hope) or float(hope.max()) <= best + self.config.tolerance


def _check(config: SearcherConfig, *, has_pair_counts: bool) -> None:
    problems = config.check()
    if config.kernel == "weighted" and not has_pair_counts:
        problems.append("kernel = weighted needs counts of pairs of categories.")
    if problems:
        raise ConfigError(" ".join(problems))


def _strategy(
    space: WorkflowSpace, config: SearcherConfig, seed: int, model_strategy: ModelStrategy
) -> SearchStrategy:
    match config.strategy:
        case "random":
            return uniform(space, seed)
        case "exhaustive":
            return exhaustive(space)
        case "list":
            return listed(space, config.workflows)
        case "optuna":
            return TpeStrategy(space, config, seed=seed)
    return model_strategy
