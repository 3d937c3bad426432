"""Score policies under workflows, all on the same episodes.

Episode k of a scenario has the same seed for every policy and workflow, and sampled actions come
from the same random numbers, so that differences between workflows are not those of luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from briskrl.algos.base import Policy
from briskrl.algos.ppo.policy import StochasticPolicy
from briskrl.core.rng import derive_seed
from briskrl.core.types import Array, Bools, Decision, StepBuffers
from briskrl.envs.make import make_env
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.envs.workflow.env import WorkflowVecEnv
from briskrl.envs.workflow.records import ComplianceRecords
from briskrl.training.evaluate import MAX_ENVS
from briskrl.workflows.run.counts import pooled
from briskrl.workflows.run.evaluation_plan import Evaluated, EvaluationPlan
from briskrl.workflows.run.trainer import counts_of


class Actions(Protocol):
    """Chooses actions of N environments."""

    def __call__(self, env: WorkflowVecEnv, obs: Array, mask: Bools | None) -> Array:
        """Actions (N,) or (N, D) for observations (N, *obs)."""
        ...


Player = Callable[[WorkflowVecEnv, int], Actions]
"""Makes the actions of a batch of episodes, from the environments and a seed."""


def policy_player(policy: Policy, *, greedy: bool) -> Player:
    """A trained policy, which samples its actions or takes the most probable ones."""

    def make(env: WorkflowVecEnv, seed: int) -> Actions:
        if greedy or not isinstance(policy, StochasticPolicy):
            return lambda env, obs, mask: policy.act(obs, mask)
        return _Sampled(policy, env, seed)

    return make


class _Sampled:
    """Samples the actions of a stochastic policy."""

    def __init__(self, policy: StochasticPolicy, env: WorkflowVecEnv, seed: int) -> None:
        self._policy = policy
        self._decision = Decision.allocate(env.env_spec, env.num_envs)
        self._rng = np.random.default_rng(seed)

    def __call__(self, env: WorkflowVecEnv, obs: Array, mask: Bools | None) -> Array:
        """Actions (N,) or (N, D)."""
        import torch

        with torch.inference_mode():
            outputs = self._policy.network.policy(torch.from_numpy(obs)).numpy()
        self._policy.distribution.sample(outputs, mask, self._rng, self._decision)
        return self._decision.action


def evaluate_workflows(
    player: Player,
    env: str,
    config: WorkflowEnvConfig,
    plan: EvaluationPlan,
    *,
    after_step: Callable[[], None] = lambda: None,
) -> list[Evaluated]:
    """Play every workflow of the plan.

    Args:
        player: Who plays.
        env: Name of the environment, as in workflow:cage2.
        config: Its settings; the bonus makes no difference, because scores leave it out.
        plan: What to play.
        after_step: Called after every step of all environments.
    """
    parts: list[list[ComplianceRecords]] = []
    for scenario in plan.scenarios:
        changed = replace(config, task_config={**config.task_config, **scenario.task_config})
        parts.append(_play_scenario(player, env, changed, plan, after_step))
    weights = [scenario.weight for scenario in plan.scenarios]
    return [
        _evaluated(number, [records[k] for records in parts], weights)
        for k, number in enumerate(plan.workflow_ids)
    ]


def _play_scenario(
    player: Player,
    env: str,
    config: WorkflowEnvConfig,
    plan: EvaluationPlan,
    after_step: Callable[[], None],
) -> list[ComplianceRecords]:
    """Episodes of every workflow, in the order of their seeds."""
    num_envs = min(plan.episodes, MAX_ENVS)
    base = derive_seed(plan.seed, "evaluate workflows")
    found = []
    venv: Any = make_env(env, num_envs, config=config)
    with closing(venv):
        assert isinstance(venv, WorkflowVecEnv)
        for number in plan.workflow_ids:
            waves = [
                _first_episodes(player, venv, number, base + first, after_step).of(
                    slice(0, plan.episodes - first)
                )
                for first in range(0, plan.episodes, num_envs)
            ]
            found.append(ComplianceRecords.concatenate(waves))
    return found


def _first_episodes(
    player: Player,
    venv: WorkflowVecEnv,
    number: int,
    seed: int,
    after_step: Callable[[], None],
) -> ComplianceRecords:
    """The first episode of each environment, by environment."""
    buffers = StepBuffers.allocate(venv.env_spec, venv.num_envs)
    everywhere = np.arange(venv.num_envs)
    venv.assign(everywhere, number)
    venv.start(seed, buffers)
    venv.drain_stats()
    venv.drain_compliance()
    actions = player(venv, derive_seed(seed, "actions"))
    missing = np.ones(venv.num_envs, np.bool_)
    parts = []
    while missing.any():
        venv.step_into(actions(venv, buffers.obs, buffers.mask), buffers)
        if venv.drain_stats().count:
            records = venv.drain_compliance()
            first = missing[records.env]
            parts.append(records.of(first))
            missing[records.env] = False
        after_step()
    found = ComplianceRecords.concatenate(parts)
    return found.of(np.argsort(found.env, kind="stable"))


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
