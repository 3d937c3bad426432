"""Short runs under workflows, and a reporter that stops them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.training.reporter import StopSignal
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.run.config import WorkflowConfig
from briskrl.workflows.run.ledger import JobRecord
from briskrl.workflows.run.reporter import SilentReporter
from briskrl.workflows.run.stop_config import StopConfig

TINY = WorkflowConfig(
    num_envs=20,
    total_episodes=700,
    max_episodes=4,
    base_episodes=60,
    eval_episodes=20,
    final_eval_episodes=20,
    sweep_episodes=2,
    finetune=1,
    plain_ppo="no",
    env_config=WorkflowEnvConfig(task_config={"red": "bline", "length": 10}),
    algo_config={"update_steps": 10, "net": (16,)},
    searcher=SearcherConfig(max_workflows=5),
    stop=StopConfig(gate_min_judged=20, gate_min_episodes=20, reward_patience=2),
)
"""A search of five workflows, each for 80 episodes of 10 steps."""


def tiny(folder: Path, **changes: Any) -> WorkflowConfig:
    """The settings of a short run in this folder."""
    return replace(TINY, run_dir=str(folder), **changes)


class Stopper(SilentReporter):
    """Asks a run to stop at the n-th report of a job of some kind.

    Args:
        kind: The kind of job.
        at: Which report; 0 for the start of the first such job.
    """

    def __init__(self, kind: str, at: int) -> None:
        self._kind, self._left = kind, at
        self.signal: StopSignal | None = None

    def on_job(self, job: JobRecord) -> None:
        """Count the start of a job."""
        if job.kind == self._kind and not job.has_ended:
            self._count()

    def on_progress(self, job: JobRecord, values: Mapping[str, Any]) -> None:
        """Count an update."""
        if job.kind == self._kind:
            self._count()

    def _count(self) -> None:
        if self._left == 0:
            self.signal = "sigint"
        self._left -= 1


def facts(jobs: Mapping[str, JobRecord]) -> list[tuple[Any, ...]]:
    """What must not depend on interruptions: jobs, choices, episodes and scores."""
    found = []
    for job in jobs.values():
        assert job.result is not None
        scores = [one["score"] for one in job.result["evaluations"]]
        facts = (job.name, job.start_from, job.cap, dict(job.choice), job.episodes, scores)
        found.append(facts)
    return found
