"""Settings of training under workflows; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from briskrl.core.aliases import AliasTable
from briskrl.core.config import accepts_aliases
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.run.stop_config import StopConfig

WarmStart = Literal["base", "nearest", "last", "none"]
Count = Annotated[int, Meta(ge=1)]
BASE_SHARE = 0.1
"""Part of all episodes in the base phase, by default."""
MINIBATCHES = 4
"""Minibatches per epoch, by default."""
PPO_DEFAULTS: dict[str, Any] = {"update_steps": 50, "lr": 1e-3, "lr_schedule": "constant"}
"""Settings of PPO under workflows; the others have the defaults of PPO."""


@accepts_aliases
@dataclass(frozen=True, slots=True)
class WorkflowConfig:
    """Training under workflows: the task, the episodes to spend, and how policies are scored.

    Nested settings may also be given as mappings.
    """

    ALIASES: ClassVar[AliasTable] = {"n_envs": "num_envs"}

    task: str = "cage2"
    """Environment with kinds of incident: cage2, ordered-visit, or gym:ID with a task of yours."""
    seed: Annotated[int, Meta(ge=0)] = 0
    """Seed of everything; equal seeds and settings give equal results."""
    num_envs: Annotated[int, Meta(ge=1, le=1_048_576)] = 200
    """Environments stepped together by every job."""
    total_episodes: Count = 100_000
    """Episodes of everything: base phase, training and evaluations. The closing evaluation and
    plain PPO are outside."""
    max_episodes: Count = 50
    """Episodes of training per environment and workflow, at most."""
    warm_start: WarmStart = "base"
    """Weights that training under a workflow begins with: those of a base policy that was trained
    under random workflows first (base), of the most similar workflow so far (nearest), of the
    one before (last), or new ones (none). A workflow that is visited again continues its own."""
    base_episodes: Annotated[int, Meta(ge=0)] | None = None
    """Episodes of the base phase; by default a tenth of all."""
    eval_episodes: Annotated[int, Meta(ge=2)] = 200
    """Episodes that a trained policy is scored by, per scenario of the suite; the same ones for
    all workflows."""
    eval_policy: Literal["stochastic", "greedy"] = "stochastic"
    """Whether evaluated policies sample their actions or take the most probable one."""
    final_eval_episodes: Annotated[int, Meta(ge=2)] = 1000
    """Episodes of the closing evaluation of each of the best workflows, on fresh seeds."""
    suite: str = "train-attacker"
    """Scenarios of evaluations: train-attacker (those of training), or for cage2 leaderboard (three
    attackers, 30, 50 and 100 steps; the score is the sum)."""
    min_contested: Annotated[float, Meta(ge=0, le=1)] = 0.02
    """Share of fixes at which the order must make a difference for it to matter."""
    plain_ppo: Literal["auto", "yes", "no"] = "auto"
    """Whether plain PPO, without workflows, is trained with the same number of episodes at the end,
    to compare with; auto: if the environment is compiled, so that it costs little."""
    parallel_workflows: Annotated[int, Meta(ge=1, le=4096)] = 1
    """Workflows that are trained at the same time."""
    sync_batches: bool = False
    """Choose that many workflows at once and wait for all of them, which makes the search
    reproducible; otherwise the next one is chosen whenever one ends."""
    executor: Literal["auto", "serial", "local", "ray"] = "auto"
    """Where jobs run: in this process (serial), in processes of this machine (local), or on a Ray
    cluster (ray, needs the ray extra); auto is serial for one job at a time, else local."""
    address: str | None = None
    """Ray cluster to use; see brisk sweep."""
    job_timeout: Annotated[float, Meta(ge=0)] = 600.0
    """Seconds without any progress after which a job counts as hung; 0 waits forever."""
    gpus_per_job: Annotated[float, Meta(ge=0, le=64)] = 0.0
    """GPUs for each job, or a share of one."""
    sweep_episodes: Annotated[int, Meta(ge=2)] = 50
    """joint: evaluation episodes of every workflow after training."""
    finetune: Annotated[int, Meta(ge=0, le=100)] = 3
    """joint: best workflows to train further, each by itself."""
    threads: Annotated[int, Meta(ge=1, le=1024)] | Literal["auto"] = 1
    """Threads of each job; auto shares the cores among the jobs at the same time. Results depend on
    this number."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "cpu"
    """Device of the networks."""
    engine: Literal["auto", "fused", "torch"] = "auto"
    """What computes the networks; auto takes the fused engine wherever it can be used."""
    checkpoint_seconds: Annotated[float, Meta(ge=0)] = 60.0
    """Seconds between checkpoints of a job, from which a killed run continues; 0 saves only at the
    end."""
    log_episodes: bool = False
    """Write a row per episode into episodes.csv."""
    run_dir: str | None = None
    """Run folder to create; by default a new one under runs/."""
    env_config: WorkflowEnvConfig = field(default_factory=WorkflowEnvConfig)
    """How workflows are shown and rewarded, and constraints on them; its task_config holds the
    settings of the environment itself."""
    algo_config: dict[str, Any] = field(default_factory=dict)
    """Settings of PPO; the others are those of brisk workflow, or else of PPO."""
    searcher: SearcherConfig = field(default_factory=SearcherConfig)
    """How workflows are chosen."""
    stop: StopConfig = field(default_factory=StopConfig)
    """When training under one workflow ends."""

    def check(self) -> list[str]:
        """Problems with combinations of settings, one sentence each."""
        wrong = [*self.env_config.check(), *self.searcher.check(), *self._executor_problems()]
        if self.env_config.workflow is not None:
            wrong.append("env_config.workflow is chosen by the run; remove it.")
        if self.base_episodes and self.warm_start != "base":
            wrong.append(f"base_episodes is for warm_start = base, not {self.warm_start}.")
        if self.warm_start == "base" and self.base_episodes == 0:
            wrong.append("warm_start = base needs base_episodes; use warm_start = none without.")
        return wrong

    def _executor_problems(self) -> list[str]:
        wrong = []
        if self.address is not None and self.executor != "ray":
            wrong.append(f"address {self.address!r} is for executor = ray.")
        if self.gpus_per_job and self.executor in ("auto", "serial") and self.jobs == 1:
            wrong.append("gpus_per_job is for executor = local or ray.")
        return wrong

    @property
    def jobs(self) -> int:
        """Jobs at the same time."""
        return self.parallel_workflows

    @property
    def executor_name(self) -> Literal["serial", "local", "ray"]:
        """Where jobs run."""
        if self.executor == "auto":
            return "serial" if self.jobs == 1 else "local"
        return self.executor
