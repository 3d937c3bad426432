"""What is evaluated, and what comes out; imports nothing heavy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from briskrl.core.types import JSON
from briskrl.workflows.run.counts import Counts


@dataclass(frozen=True, slots=True)
class Scenario:
    """Conditions of some episodes of an evaluation."""

    task_config: Mapping[str, JSON] = field(default_factory=dict)
    """Settings of the environment that differ from those of training."""
    weight: float = 1.0
    """Of their mean return in the score."""

    @property
    def name(self) -> str:
        """The settings in words."""
        return ", ".join(f"{key} {value}" for key, value in self.task_config.items()) or "training"


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What is evaluated and how."""

    workflow_ids: tuple[int, ...]
    episodes: int
    """Per scenario."""
    seed: int
    scenarios: tuple[Scenario, ...] = (Scenario(),)
    greedy: bool = False

    @property
    def total_episodes(self) -> int:
        """Episodes of all workflows and scenarios."""
        return len(self.workflow_ids) * len(self.scenarios) * self.episodes


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One policy under one workflow."""

    workflow_id: int
    score: float
    """Weighted sum over the scenarios of their mean environment returns."""
    score_se: float
    """Its standard error."""
    counts: Counts
    """Of all episodes."""
    returns: tuple[float, ...]
    """Weighted sum over the scenarios of the return of episode k."""
    pairs: tuple[tuple[int, ...], ...]
    """Judged fixes at which both categories were open, (m, m), upper triangle."""
    exposure: tuple[tuple[float, float, int], ...]
    """Per category: mean share of steps that it was open, mean length of a spell, and number of
    spells."""

    def as_json(self) -> dict[str, JSON]:
        """The record as a JSON object."""
        return {
            "workflow_id": self.workflow_id,
            "score": self.score,
            "score_se": self.score_se,
            "counts": self.counts.as_json(),
            "returns": list(self.returns),
            "pairs": [list(row) for row in self.pairs],
            "exposure": [list(row) for row in self.exposure],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, JSON]) -> Evaluated:
        """The record that `as_json` wrote; JSON has no NaN."""
        return cls(
            workflow_id=values["workflow_id"],
            score=_number(values["score"]),
            score_se=_number(values["score_se"]),
            counts=Counts.from_json(values["counts"]),
            returns=tuple(map(_number, values["returns"])),
            pairs=tuple(tuple(row) for row in values["pairs"]),
            exposure=tuple((_number(a), _number(b), int(c)) for a, b, c in values["exposure"]),
        )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
