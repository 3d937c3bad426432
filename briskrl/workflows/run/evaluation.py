"""Score players under workflows and scenarios, all on the same episodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.envs.workflow.records import ComplianceRecords
from briskrl.training.evaluate import MAX_ENVS
from briskrl.training.workflow_evaluation import WorkflowEvaluator
from briskrl.training.workflow_players import WorkflowPlayer
from briskrl.workflows.run.counts import pooled
from briskrl.workflows.run.evaluation_plan import Evaluated, EvaluationPlan
from briskrl.workflows.run.trainer import counts_of


def evaluate_workflows(
    player: WorkflowPlayer,
    task: str,
    config: WorkflowEnvConfig,
    plan: EvaluationPlan,
    *,
    after_step: Callable[[], None] = lambda: None,
) -> list[Evaluated]:
    """Play every workflow of the plan.

    Args:
        player: Who plays.
        task: Name of the environment below the workflow, such as cage2.
        config: Its settings; the bonus makes no difference, because scores leave it out.
        plan: What to play.
        after_step: Called after every step of all environments.
    """
    parts: list[list[ComplianceRecords]] = []
    for scenario in plan.scenarios:
        changed = replace(config, task_config={**config.task_config, **scenario.task_config})
        with WorkflowEvaluator(task, changed, num_envs=min(plan.episodes, MAX_ENVS)) as evaluator:
            space = evaluator.space
            parts.append(
                [
                    evaluator.evaluate(
                        player,
                        space.from_id(number),
                        episodes=plan.episodes,
                        seed=plan.seed,
                        after_step=after_step,
                    ).records
                    for number in plan.workflow_ids
                ]
            )
    weights = [scenario.weight for scenario in plan.scenarios]
    return [
        _evaluated(number, [records[k] for records in parts], weights)
        for k, number in enumerate(plan.workflow_ids)
    ]


def _evaluated(
    number: int, parts: Sequence[ComplianceRecords], weights: Sequence[float]
) -> Evaluated:
    returns = sum(w * records.env_return for w, records in zip(weights, parts, strict=True))
    assert isinstance(returns, np.ndarray)
    variances = [
        (w**2) * records.env_return.var(ddof=1) / records.count
        for w, records in zip(weights, parts, strict=True)
    ]
    everything = ComplianceRecords.concatenate(list(parts))
    return Evaluated(
        workflow_id=number,
        score=float(returns.mean()),
        score_se=math.sqrt(sum(variances)),
        counts=pooled(counts_of(records) for records in parts),
        returns=tuple(returns.tolist()),
        pairs=pair_matrix(everything),
        exposure=_exposure(everything),
    )


def pair_matrix(records: ComplianceRecords) -> tuple[tuple[int, ...], ...]:
    """Sums over episodes of the counts of pairs, (m, m), upper triangle."""
    m = records.open_steps.shape[1]
    matrix = np.zeros((m, m), np.int64)
    matrix[np.triu_indices(m, 1)] = records.pairs.sum(axis=0)
    return tuple(map(tuple, matrix.tolist()))


def _exposure(records: ComplianceRecords) -> tuple[tuple[float, float, int], ...]:
    open_steps, spells = records.open_steps.sum(axis=0), records.spells.sum(axis=0)
    shares = (records.open_steps / np.maximum(records.steps, 1)[:, None]).mean(axis=0)
    return tuple(
        (float(share), float(steps / count) if count else math.nan, int(count))
        for share, steps, count in zip(shares, open_steps, spells, strict=True)
    )
