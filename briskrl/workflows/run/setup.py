"""What the settings of a run amount to: environment, space, settings of training and evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from briskrl.algos.ppo.config import PPOConfig
from briskrl.core.config import build, config_error, settings
from briskrl.core.cpu import usable_cores
from briskrl.core.errors import ConfigError
from briskrl.core.types import JSON
from briskrl.envs.registry import ENVS
from briskrl.envs.workflow.builtin_tasks import TASKS, make_task, task_env_config
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.orders.space import WorkflowSpace
from briskrl.training.config import TrainConfig
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.run.budget import Budget, Plan, plan_search
from briskrl.workflows.run.config import BASE_SHARE, MINIBATCHES, PPO_DEFAULTS, WorkflowConfig
from briskrl.workflows.run.evaluation_plan import EvaluationPlan, Scenario
from briskrl.workflows.run.presets import find_suite
from briskrl.workflows.run.seeds import Stage, job_seed
from briskrl.workflows.run.stop_config import StopConfig
from briskrl.workflows.run.trainer_config import Course, Draw


@dataclass(frozen=True, slots=True)
class RunSetup:
    """A run, with everything that follows from its settings."""

    config: WorkflowConfig
    space: WorkflowSpace
    ppo: PPOConfig
    scenarios: tuple[Scenario, ...]
    episode_length: int | None
    """Steps of an episode if all have the same; None if that is unknown."""

    @property
    def env(self) -> str:
        """Name of the environment in the registry."""
        return f"workflow:{self.config.task}"

    @property
    def about(self) -> dict[str, JSON]:
        """What weights of this run are for; those of another environment cannot be loaded."""
        return {
            "env": self.env,
            "categories": list(self.space.categories),
            "encoding": self.config.env_config.encoding,
        }

    @property
    def threshold(self) -> float:
        """Compliance to reach."""
        return self.config.env_config.compliance_threshold

    @property
    def searcher_config(self) -> SearcherConfig:
        """Settings of the search, with this threshold."""
        return replace(self.config.searcher, compliance_threshold=self.threshold)

    @property
    def base_episodes(self) -> int:
        """Episodes of the base phase; 0 if there is none."""
        config = self.config
        if config.warm_start != "base":
            return 0
        share = round(BASE_SHARE * config.total_episodes)
        return max(1, share) if config.base_episodes is None else config.base_episodes

    @property
    def budget(self) -> Budget:
        """Episodes of a search."""
        config = self.config
        return Budget(
            total=config.total_episodes,
            cap=config.max_episodes * config.num_envs,
            eval_episodes=config.eval_episodes * len(self.scenarios),
            num_envs=config.num_envs,
        )

    @property
    def sweep_episodes(self) -> int:
        """Evaluation episodes of one workflow after joint training."""
        return self.config.sweep_episodes * len(self.scenarios)

    def plan(self) -> Plan:
        """What the episodes of a search suffice for.

        Raises:
            ConfigError: They are too few.
        """
        steps = self.config.num_envs * self.ppo.update_steps
        return plan_search(
            self.budget,
            base_episodes=self.base_episodes,
            space_size=self.space.size,
            stop=self.config.stop,
            # Of unknown length, an episode per environment and update.
            episodes_per_update=steps / (self.episode_length or self.ppo.update_steps),
            most_visits=self.config.searcher.max_visits,
        )

    def train_config(self, *, workflow: str | None, seed: int, plain: bool = False) -> TrainConfig:
        """Settings of training.

        Args:
            workflow: The workflow of all environments; None for one per episode.
            seed: Of training.
            plain: Hide workflows from the policy and give no bonus.
        """
        config = self.config
        env_config = replace(
            config.env_config, workflow=workflow, adapt_steps=self.ppo.update_steps
        )
        if plain:
            env_config = replace(env_config, encoding="none", alignment_mode="none")
        return TrainConfig(
            env=self.env,
            algo="ppo",
            seed=seed,
            num_envs=config.num_envs,
            threads=self.threads,
            device=config.device,
            engine=config.engine,
            checkpoint_seconds=config.checkpoint_seconds,
            keep_checkpoints=1,
            env_config=env_config,
            algo_config=self.ppo,
        )

    @property
    def threads(self) -> int:
        """Threads of a job."""
        if self.config.threads != "auto":
            return self.config.threads
        return max(1, usable_cores() // self.config.parallel_workflows)

    def course(self, cap: int, *, draw: Draw = "fixed", cap_is_budget: bool = False) -> Course:
        """How training goes on and ends; only training under one workflow ends early."""
        stop = self.config.stop
        if draw != "fixed":
            stop = replace(stop, stop_rule="fixed")
        return Course(
            cap=cap, stop=stop, threshold=self.threshold, draw=draw, cap_is_budget=cap_is_budget
        )

    def evaluation(
        self, ids: Sequence[int], *, stage: Stage = "eval", episodes: int | None = None
    ) -> EvaluationPlan:
        """An evaluation of workflows with the seeds of a stage."""
        return EvaluationPlan(
            workflow_ids=tuple(ids),
            episodes=self.config.eval_episodes if episodes is None else episodes,
            seed=job_seed(self.config.seed, stage),
            scenarios=self.scenarios,
            greedy=self.config.eval_policy == "greedy",
        )

    @property
    def wants_plain_ppo(self) -> bool:
        """Whether plain PPO is trained to compare with."""
        if self.config.plain_ppo == "auto":
            return self.config.task in TASKS
        return self.config.plain_ppo == "yes"


def make_setup(config: WorkflowConfig) -> RunSetup:
    """Everything that follows from the settings of a run.

    Raises:
        ConfigError: They cannot be used.
    """
    config = _with_objects(config)
    problems = config.check()
    if problems:
        raise config_error(problems)
    _check_task(config.task)
    task = make_task(config.task, config.env_config)
    inner = task_env_config(config.task, config.env_config)
    defaults = PPO_DEFAULTS | config.algo_config
    size = config.num_envs * int(defaults["update_steps"])
    given = {"minibatch_size": max(1, size // MINIBATCHES), **defaults}
    length = getattr(inner, "length", None)
    return RunSetup(
        config=config,
        space=WorkflowSpace(task.categories, require=config.env_config.require, named=task.named),
        ppo=build(PPOConfig, settings(given, "algo_config")),
        scenarios=find_suite(config.task, config.suite),
        episode_length=length if isinstance(length, int) else None,
    )


def _with_objects(config: WorkflowConfig) -> WorkflowConfig:
    """The same settings; nested ones that were given as mappings become config objects."""
    nested: dict[str, type] = {
        "env_config": WorkflowEnvConfig,
        "searcher": SearcherConfig,
        "stop": StopConfig,
    }
    given = {name: getattr(config, name) for name in nested}
    changes: dict[str, Any] = {
        name: build(nested[name], settings(value, name))
        for name, value in given.items()
        if isinstance(value, Mapping)
    }
    return replace(config, **changes)


def _check_task(name: str) -> None:
    if name.startswith("workflow:"):
        raise ConfigError(f"Name the task without its prefix: {name.partition(':')[2]}.")
    ENVS.get(name)
