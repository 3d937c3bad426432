"""What a search knows: results, pending evaluations, and which orders may be chosen next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from briskrl.core.errors import ConfigError
from briskrl.core.types import Bools, Ints
from briskrl.orders.workflow import Workflow
from briskrl.workflows.distances import Doubles

MOST_FAILURES = 2
"""Failed evaluations after which an order is not chosen again."""


@dataclass(frozen=True, slots=True)
class OrderResult:
    """The result of evaluating one order.

    A result whose score is not finite counts as failed.
    """

    workflow: Workflow
    score: float
    """What to maximize."""
    episodes: int = 1
    """Episodes behind the score; the noise of the score falls with them."""
    score_se: float | None = None
    """Standard error of the score, if known."""
    compliance: float = 1.0
    """Share of decisions that obeyed the order; NaN if there was none, which counts as 0."""
    contested_share: float | None = None
    """Share of decisions at which the order made a difference, if known."""
    feasible: bool | None = None
    """Whether the order is obeyed well enough; by default, if the compliance reaches the
    threshold."""
    replaces_earlier: bool = False
    """Whether earlier results of the same order are obsolete, as after further training. By
    default, they are measurements of the same quantity and are averaged over all episodes."""
    failed: bool = False
    """The evaluation has no score."""

    @property
    def has_score(self) -> bool:
        """Whether the evaluation succeeded."""
        return not self.failed and math.isfinite(self.score)

    def check(self) -> None:
        """Check the numbers.

        Raises:
            ConfigError: One of them is impossible.
        """
        if self.episodes < 1:
            raise ConfigError(f"A result has {self.episodes} episodes; there must be at least 1.")
        if self.score_se is not None and not 0 <= self.score_se < math.inf:
            raise ConfigError(f"The standard error {self.score_se} is not a number from 0.")
        for name in ("compliance", "contested_share"):
            share = getattr(self, name)
            if share is not None and not (0 <= share <= 1 or math.isnan(share)):
                raise ConfigError(f"The {name} of a result is {share}; it must be from 0 to 1.")


@dataclass(frozen=True, slots=True)
class Observations:
    """One row per order with a score, by ascending id; arrays of n rows."""

    ids: Ints
    orders: Ints
    """(n, m)"""
    scores: Doubles
    episodes: Doubles
    compliance: Doubles
    """NaN replaced by 0."""
    feasible: Bools
    score_se: Doubles
    """NaN where unknown."""

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, mask: Bools) -> Observations:
        """The rows at which the mask (n,) is True."""
        columns = (getattr(self, name)[mask] for name in self.__dataclass_fields__)
        return Observations(*columns)

    def with_scores(self, scores: Doubles) -> Observations:
        """The same rows with other scores (n,)."""
        return replace(self, scores=scores)


class History:
    """Results and pending evaluations of one search, with the counts that follow from them.

    Args:
        m: Number of categories.
        threshold: Compliance of a feasible order.
        max_visits: Most evaluations of one order.
        bar_infeasible: An order whose result is infeasible is not chosen again.
    """

    def __init__(
        self,
        m: int,
        *,
        threshold: float,
        max_visits: int = 3,
        bar_infeasible: bool = False,
    ) -> None:
        self._m = m
        self._threshold = threshold
        self._max_visits = max_visits
        self._bar_infeasible = bar_infeasible
        self.results: list[OrderResult] = []
        self.pending: list[Workflow] = []
        self.asked = 0
        """Orders chosen so far, pending ones included."""
        self.last: int | None = None
        """Id of the order chosen last."""
        self._scored: dict[int, list[OrderResult]] = {}
        self._valid: dict[int, list[OrderResult]] = {}
        """The results with a score that were not replaced, by id."""
        self._failures: Counter[int] = Counter()
        self._observations: Observations | None = None

    def add_pending(self, workflow: Workflow) -> None:
        """Record that an order was chosen."""
        self.pending.append(workflow)
        self.asked += 1
        self.last = workflow.id

    def drop_pending(self, workflow: Workflow) -> None:
        """Forget a pending evaluation, if there is one."""
        if workflow in self.pending:
            self.pending.remove(workflow)

    def add(self, result: OrderResult) -> None:
        """Record a result; a pending evaluation of the same order ends.

        Raises:
            ConfigError: A number of the result is impossible.
        """
        result.check()
        self.drop_pending(result.workflow)
        self.results.append(result)
        number = result.workflow.id
        if result.has_score:
            self._scored.setdefault(number, []).append(result)
            self._valid.setdefault(number, []).append(result)
            if result.replaces_earlier:
                self._valid[number] = [result]
            self._observations = None
        else:
            self._failures[number] += 1

    def visits(self, number: int) -> int:
        """Successful evaluations of the order with this id."""
        return len(self._scored.get(number, ()))

    def pending_ids(self) -> set[int]:
        """Ids of the pending orders."""
        return {workflow.id for workflow in self.pending}

    def tried(self) -> set[int]:
        """Ids of orders that have a result or are pending."""
        return self._scored.keys() | self._failures.keys() | self.pending_ids()

    def latest(self, number: int) -> OrderResult:
        """The latest result with a score of the order with this id."""
        return self._scored[number][-1]

    def is_feasible(self, result: OrderResult) -> bool:
        """Whether a result is that of a feasible order."""
        if result.feasible is not None:
            return result.feasible
        return result.compliance >= self._threshold

    def open_ids(self, ids: Ints) -> Bools:
        """Which orders, of these ids (n,), may be chosen again at some time."""
        closed = [number for number, found in self._scored.items() if self._is_used_up(found)]
        closed += [number for number, count in self._failures.items() if count >= MOST_FAILURES]
        return ~np.isin(ids, closed)

    def eligible(self, ids: Ints) -> Bools:
        """Which orders, of these ids (n,), may be chosen now.

        Pending ones may not, and the one chosen last only if there is no other.
        """
        free = self.open_ids(ids) & ~np.isin(ids, list(self.pending_ids()))
        others = free & (ids != (-1 if self.last is None else self.last))
        return others if others.any() else free

    @property
    def observations(self) -> Observations:
        """One row per order with a score."""
        if self._observations is None:
            self._observations = self._collect()
        return self._observations

    def _is_used_up(self, found: list[OrderResult]) -> bool:
        barred = self._bar_infeasible and not self.is_feasible(found[-1])
        return barred or len(found) >= self._max_visits

    def _collect(self) -> Observations:
        numbers = sorted(self._scored)
        merged = [_merged(self._valid[number]) for number in numbers]
        return Observations(
            ids=np.array(numbers, np.int64),
            orders=np.array([r.workflow.order for r in merged], np.int64).reshape(-1, self._m),
            scores=_column(r.score for r in merged),
            episodes=_column(r.episodes for r in merged),
            compliance=_column(_known_compliance(r) for r in merged),
            feasible=np.array([self.is_feasible(r) for r in merged], np.bool_),
            score_se=_column(math.nan if r.score_se is None else r.score_se for r in merged),
        )


def _merged(found: list[OrderResult]) -> OrderResult:
    """The mean of several results over all their episodes."""
    if len(found) == 1:
        return found[0]
    sizes = [result.episodes for result in found]
    errors = [math.nan if r.score_se is None else r.score_se for r in found]
    return OrderResult(
        found[-1].workflow,
        score=_weighted_mean([r.score for r in found], sizes),
        episodes=sum(sizes),
        score_se=math.hypot(*(s * e for s, e in zip(sizes, errors, strict=True))) / sum(sizes),
        compliance=_weighted_mean([_known_compliance(r) for r in found], sizes),
        feasible=found[-1].feasible,
    )


def _known_compliance(result: OrderResult) -> float:
    """The compliance; 0 where no decision could be judged, which shows no obedience."""
    return 0.0 if math.isnan(result.compliance) else result.compliance


def _weighted_mean(values: list[float], sizes: list[int]) -> float:
    return sum(v * s for v, s in zip(values, sizes, strict=True)) / sum(sizes)


def _column(values: Iterable[float]) -> Doubles:
    return np.array(list(values), np.float64)
