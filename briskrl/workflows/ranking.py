"""Evaluated orders from best to worst, by what the search believes about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from briskrl.orders.space import WorkflowSpace
from briskrl.orders.workflow import Workflow
from briskrl.workflows.acquisition import TIE
from briskrl.workflows.feasibility import SearchModel
from briskrl.workflows.history import History


@dataclass(frozen=True, slots=True)
class RankedOrder:
    """One evaluated order."""

    workflow: Workflow
    feasible: bool
    score: float
    """Observed score."""
    mean: float
    """Expected score given the scores of all orders; the observed one without a model."""
    std: float | None
    """Its standard deviation; None without a model."""
    compliance: float
    episodes: int
    visits: int


def ranked_orders(
    space: WorkflowSpace, history: History, model: SearchModel | None, *, ignore_feasibility: bool
) -> list[RankedOrder]:
    """All orders with a score, the recommended one first.

    Feasible orders come first, by expected score; equal ones by their number of episodes, then by
    id. Infeasible orders follow by compliance.
    """
    rows = list(_rows(space, history, model))
    good = [row for row in rows if row.feasible or ignore_feasibility]
    rest = [row for row in rows if not (row.feasible or ignore_feasibility)]
    rest.sort(key=lambda row: (-row.compliance, -row.mean, row.workflow.id))
    return [*_by_mean(good), *rest]


def _rows(
    space: WorkflowSpace, history: History, model: SearchModel | None
) -> Iterator[RankedOrder]:
    seen = history.observations
    posterior = model.predict(seen.orders) if model is not None and len(seen) else None
    for row, number in enumerate(seen.ids.tolist()):
        yield RankedOrder(
            workflow=space.from_id(number),
            feasible=bool(seen.feasible[row]),
            score=float(seen.scores[row]),
            mean=float(seen.scores[row] if posterior is None else posterior.mean[row]),
            std=None if posterior is None else float(posterior.std[row]),
            compliance=float(seen.compliance[row]),
            episodes=int(seen.episodes[row]),
            visits=history.visits(number),
        )


def _by_mean(rows: list[RankedOrder]) -> list[RankedOrder]:
    """Sorted by mean; runs of means that differ by rounding only, by episodes and id."""
    rows = sorted(rows, key=lambda row: -row.mean)
    groups: list[list[RankedOrder]] = []
    for row in rows:
        close = groups and groups[-1][0].mean - row.mean <= TIE * (1 + abs(row.mean))
        if close:
            groups[-1].append(row)
        else:
            groups.append([row])
    for group in groups:
        group.sort(key=lambda row: (-row.episodes, row.workflow.id))
    return [row for group in groups for row in group]
