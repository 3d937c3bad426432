"""Episodes of a run: what is spent, reserved and left, and what they suffice for."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from briskrl.core.errors import ConfigError
from briskrl.core.types import JSON
from briskrl.workflows.run.stop_config import StopConfig

FEW = 0.1
"""Share of all workflows below which a budget is small."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Episodes of the whole run, and those of one workflow.

    A job reserves what it may use when it is dispatched, and returns what it did not use.
    """

    total: int
    cap: int
    """Training episodes of one workflow, at most."""
    eval_episodes: int
    """Evaluation episodes of one workflow."""
    num_envs: int

    @property
    def smallest(self) -> int:
        """Episodes without which no workflow is trained."""
        return self.eval_episodes + self.num_envs

    def cap_for(self, left: int) -> int | None:
        """Training episodes of the next workflow if `left` are left; None if that is too few."""
        if left < self.smallest:
            return None
        return min(self.cap, left - self.eval_episodes)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a budget suffices for."""

    space_size: int
    total_episodes: int
    base_episodes: int
    cap: int
    eval_episodes: int
    most_per_workflow: int
    least_per_workflow: int
    """If training ends at the first moment that the stop rule allows."""
    worst_case: int
    """Workflows that can be evaluated if each uses all its episodes."""
    best_case: int
    """The same if each ends as early as possible."""
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, JSON]:
        """The plan as a JSON object."""
        return {**asdict(self), "warnings": list(self.warnings)}


def plan_search(
    budget: Budget,
    *,
    base_episodes: int,
    space_size: int,
    stop: StopConfig,
    episodes_per_update: float,
    most_visits: int = 3,
) -> Plan:
    """What the budget of a search suffices for.

    Args:
        budget: The episodes.
        base_episodes: Those of the base phase.
        space_size: Number of workflows.
        stop: When training of a workflow ends.
        episodes_per_update: Episodes that end in one rollout; if unknown, an estimate.
        most_visits: Evaluations of one workflow, at most.

    Raises:
        ConfigError: It does not suffice for the base phase and one workflow.
    """
    needed = base_episodes + budget.smallest
    if budget.total < needed:
        raise ConfigError(
            f"total_episodes {budget.total} is too small: the base phase takes {base_episodes}, "
            f"and one workflow at least {budget.smallest} ({budget.num_envs} of training, "
            f"{budget.eval_episodes} of evaluation). The smallest number is {needed}."
        )
    left = budget.total - base_episodes
    least = min(budget.cap, _earliest(stop, episodes_per_update)) + budget.eval_episodes
    most = budget.cap + budget.eval_episodes
    visits = space_size * most_visits if space_size > 1 else 1
    worst = min(visits, _workflows(left, most, budget))
    best = min(visits, _workflows(left, least, budget))
    return Plan(
        space_size=space_size,
        total_episodes=budget.total,
        base_episodes=base_episodes,
        cap=budget.cap,
        eval_episodes=budget.eval_episodes,
        most_per_workflow=most,
        least_per_workflow=least,
        worst_case=worst,
        best_case=max(best, worst),
        warnings=tuple(_warnings(worst, space_size)),
    )


def _workflows(left: int, each: int, budget: Budget) -> int:
    """Workflows of `each` episodes; a smaller rest still trains one for a shorter time."""
    whole, rest = divmod(left, each)
    return whole + (rest >= budget.smallest)


def _earliest(stop: StopConfig, episodes_per_update: float) -> int:
    """Episodes of training after which the stop rule can end it for the first time."""
    per_update = max(episodes_per_update, 1e-9)
    gate = math.ceil(stop.gate_min_episodes / per_update)
    if stop.stop_rule == "fixed":
        return 1 << 62
    patience = {
        "gate": 0,
        "gate-then-plateau": min(stop.reward_patience, stop.compliance_patience),
    }[stop.stop_rule]
    updates = max(gate, 1 + patience)
    return math.ceil(updates * per_update)


def _warnings(worst: int, space_size: int) -> list[str]:
    if worst >= FEW * space_size:
        return []
    return [
        f"In the worst case only {worst} of {space_size:,} workflows are evaluated, less than "
        f"{FEW:.0%}. Raise total_episodes, lower max_episodes, or constrain the orders with "
        "require."
    ]
