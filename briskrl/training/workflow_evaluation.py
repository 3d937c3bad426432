"""Evaluate one player under several workflows, with common random numbers.

Episode k has the same seed and the same random numbers for actions under every workflow, so that
returns can be compared pair by pair. Policies do not learn, and returns contain no bonus.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import nan, sqrt
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.rng import derive_seed
from briskrl.core.types import JSON, StepBuffers
from briskrl.envs.workflow.build import build
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.envs.workflow.env import WorkflowVecEnv
from briskrl.envs.workflow.records import ComplianceRecords
from briskrl.orders.workflow import Workflow
from briskrl.training.evaluate import MAX_ENVS, load_policy, one_thread
from briskrl.training.workflow_players import PolicyPlayer, WorkflowPlayer

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WorkflowEvaluation:
    """E episodes of one player under one workflow, in the order of their seeds."""

    workflow: Workflow
    seed: int
    records: ComplianceRecords
    """(E,): `env` is the number of the episode."""

    @property
    def returns(self) -> Reals:
        """(E,): returns of the environment."""
        return self.records.env_return

    @property
    def episodes(self) -> int:
        """E."""
        return self.records.count

    @property
    def score(self) -> float:
        """Mean return."""
        return float(self.returns.mean())

    @property
    def score_se(self) -> float:
        """Standard error of the score; NaN for a single episode."""
        count = self.episodes
        return float(self.returns.std(ddof=1)) / sqrt(count) if count > 1 else nan

    @property
    def compliance(self) -> float:
        """Pooled compliance; NaN without a judged fix."""
        return self.records.compliance

    @property
    def contested_compliance(self) -> float:
        """Pooled compliance of contested steps; NaN without any."""
        return self.records.contested_compliance

    @property
    def contested_share(self) -> float:
        """Contested share of the judged fixes; NaN without any."""
        return self.records.contested_share

    @property
    def judged_per_episode(self) -> float:
        """Mean number of judged fixes."""
        return float(self.records.judged.mean())

    @property
    def pair_shares(self) -> Reals:
        """(m (m - 1) / 2,): share of the judged steps at which both categories were open."""
        judged = self.records.judged.sum()
        shares: Reals = self.records.pairs.sum(axis=0) / max(1, int(judged))
        return shares

    @property
    def open_share(self) -> Reals:
        """(m,): share of the steps at which each category was open."""
        share: Reals = self.records.open_steps.sum(axis=0) / self.records.steps.sum()
        return share

    @property
    def open_spells(self) -> NDArray[np.int64]:
        """(m,): how often each category was opened."""
        spells: NDArray[np.int64] = self.records.spells.sum(axis=0)
        return spells

    @property
    def spell_length(self) -> Reals:
        """(m,): mean number of steps for which a category stayed open; NaN if it never was."""
        steps, spells = self.records.open_steps.sum(axis=0), self.open_spells
        return np.where(spells > 0, steps / np.maximum(1, spells), nan)

    def as_json(self) -> dict[str, JSON]:
        """The figures as a JSON object; null where one is not defined."""
        names = self.workflow.categories
        return {
            "workflow": str(self.workflow),
            "id": self.workflow.id,
            "episodes": self.episodes,
            "score": self.score,
            "score_se": _defined(self.score_se),
            "compliance": _defined(self.compliance),
            "contested_compliance": _defined(self.contested_compliance),
            "contested_share": _defined(self.contested_share),
            "judged_per_episode": self.judged_per_episode,
            "open_share": dict(zip(names, self.open_share.tolist(), strict=True)),
            "seed": self.seed,
        }


class WorkflowEvaluator:
    """Environments in which one player after another is evaluated; use it in a `with` block.

    Args:
        env: Name of the environment below the workflow, such as cage2.
        config: Settings; `workflow` and the bonus are not used.
        num_envs: Environments that are played side by side. Random actions depend on it; compare
            evaluations with equal numbers.

    Raises:
        ConfigError: The environment cannot be made.
    """

    def __init__(
        self, env: str, config: WorkflowEnvConfig | None = None, *, num_envs: int = MAX_ENVS
    ) -> None:
        config = replace(config or WorkflowEnvConfig(), workflow=None, alignment_mode="none")
        self._env: WorkflowVecEnv = build(env, num_envs, config)
        self._buffers = StepBuffers.allocate(self._env.env_spec, num_envs)
        self.space = self._env.space
        """The workflows that can be evaluated."""

    def evaluate(
        self,
        player: WorkflowPlayer,
        workflow: Workflow,
        *,
        episodes: int,
        seed: int,
        after_step: Callable[[], None] = lambda: None,
    ) -> WorkflowEvaluation:
        """Play `episodes` episodes under a workflow, the first one of every environment.

        Taking the episodes that end first would favor short ones. `after_step` is called after
        every step of all environments.
        """
        waves, base = [], derive_seed(seed, "evaluate")
        with one_thread():
            for first in range(0, episodes, self._env.num_envs):
                rng = np.random.default_rng(derive_seed(seed, f"actions from {first}"))
                found = self._first_episodes(player, workflow, base + first, rng, after_step)
                found.env[:] += first
                waves.append(found)
        records = ComplianceRecords.concatenate(waves).of(slice(episodes))
        return WorkflowEvaluation(workflow, seed, records)

    def close(self) -> None:
        """Close the environments; may be called twice."""
        self._env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _first_episodes(
        self,
        player: WorkflowPlayer,
        workflow: Workflow,
        seed: int,
        rng: np.random.Generator,
        after_step: Callable[[], None],
    ) -> ComplianceRecords:
        """Records of the first episode of every environment, by environment."""
        env, buffers = self._env, self._buffers
        env.assign(np.arange(env.num_envs), workflow.id)
        # Later episodes would draw another workflow, but only the first ones count.
        env.start(seed, buffers)
        env.drain_compliance()
        player.begin(env, rng)
        buffers.terminated[:] = buffers.truncated[:] = False
        missing, found = np.ones(env.num_envs, np.bool_), []
        while missing.any():
            env.step_into(player.act(buffers), buffers)
            if (buffers.terminated | buffers.truncated).any():
                env.drain_stats()
                ended = env.drain_compliance()
                found.append(ended.of(missing[ended.env]))
                missing[ended.env] = False
            after_step()
        records = ComplianceRecords.concatenate(found)
        return records.of(np.argsort(records.env))


def evaluate_workflow(
    run_dir: str | Path,
    workflow: str,
    *,
    episodes: int = 200,
    seed: int = 0,
    stochastic: bool = True,
    trust: bool = False,
) -> WorkflowEvaluation:
    """Evaluate the newest policy of a run under one workflow.

    Args:
        run_dir: The folder of a run on `workflow:NAME`.
        workflow: Category names joined by >, a well-known name, or an id.
        episodes: Episodes to play.
        seed: Equal seeds give equal episodes, under any workflow.
        stochastic: Draw actions as in training, instead of taking the most likely ones.
        trust: Import the modules that the run names even if other users can change its folder.

    Raises:
        ConfigError: The run has no workflows, or this one cannot be read.
        RunFolderError: There is no run, or it has not saved a policy yet.
    """
    agent = load_policy(run_dir, trust=trust)
    if not isinstance(agent.env_config, WorkflowEnvConfig):
        raise ConfigError(f"{run_dir} was trained on {agent.env!r}, which has no workflows.")
    return evaluate_player(
        PolicyPlayer(agent.policy, stochastic=stochastic),
        agent.env.partition(":")[2],
        workflow,
        config=agent.env_config,
        episodes=episodes,
        seed=seed,
    )


def evaluate_player(
    player: WorkflowPlayer,
    env: str,
    workflow: str,
    *,
    config: WorkflowEnvConfig | None = None,
    episodes: int = 200,
    seed: int = 0,
) -> WorkflowEvaluation:
    """Evaluate any player under one workflow; see `WorkflowEvaluator` for several.

    Args:
        player: Who plays.
        env: Name of the environment below the workflow, such as cage2.
        workflow: Category names joined by >, a well-known name, or an id.
        config: Settings.
        episodes: Episodes to play.
        seed: Equal seeds give equal episodes, under any workflow.

    Raises:
        ConfigError: The environment cannot be made, or the workflow cannot be read.
    """
    with WorkflowEvaluator(env, config, num_envs=min(episodes, MAX_ENVS)) as evaluator:
        parsed = evaluator.space.parse(workflow)
        return evaluator.evaluate(player, parsed, episodes=episodes, seed=seed)


def _defined(number: float) -> float | None:
    return None if np.isnan(number) else number
