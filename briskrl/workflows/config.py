"""Settings of the search for the best order; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

Strategy = Literal["gp-ucb", "thompson", "random", "exhaustive", "list", "optuna"]
InfeasibleRule = Literal["model", "penalise", "skip", "ignore"]


@dataclass(frozen=True, slots=True)
class SearcherConfig:
    """How to search for the best order."""

    strategy: Strategy = "gp-ucb"
    """How orders are chosen: gp-ucb (optimistic scores of a Gaussian process), thompson (a random
    draw from it), random (each order once), exhaustive (each order once, by id), list (the given
    workflows), optuna (TPE; needs the sweep extra)."""
    kernel: Literal["auto", "kendall", "footrule", "hamming", "mix", "weighted"] = "auto"
    """How the similarity of orders is measured; auto compares all of them in every round."""
    beta: Annotated[float, Meta(ge=0, le=1000)] | Literal["theory"] = 2.0
    """Standard deviations added to the expected score of an order; larger explores more. theory
    grows with the number of evaluations, as in the regret bound of GP-UCB."""
    infeasible: InfeasibleRule = "model"
    """What happens with orders that are not obeyed: model (predict compliance and avoid them),
    penalise (lower their scores), skip (forget them and never try them again), ignore."""
    compliance_threshold: Annotated[float, Meta(gt=0, le=1)] = 0.95
    """Smallest compliance of a feasible order."""
    max_visits: Annotated[int, Meta(ge=1, le=1000)] = 3
    """Most evaluations of one order."""
    max_workflows: Annotated[int, Meta(ge=1)] | None = None
    """Most evaluations of the whole search, those of the same order included."""
    tolerance: Annotated[float, Meta(ge=0)] | None = None
    """End the search when no untried order can be expected to beat the best one by more than this;
    by default never."""
    workflows: tuple[str, ...] = ()
    """Orders for strategy = list, such as server>host>user, as well-known names or as ids."""

    def check(self) -> list[str]:
        """Problems with combinations of settings, one sentence each."""
        if self.strategy == "list" and not self.workflows:
            return ["strategy = list needs workflows, the orders to evaluate."]
        if self.strategy != "list" and self.workflows:
            return ["workflows is for strategy = list only."]
        return []
