"""Which policy of a run plays under a workflow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.orders.workflow import Workflow
from briskrl.workflows.run.dispatch import JOINT, PLAIN
from briskrl.workflows.run.outcome import Outcome
from briskrl.workflows.run.results import latest_per_workflow


@dataclass(frozen=True, slots=True)
class FoundPolicy:
    """A policy, and the workflow that it plays under."""

    folder: Path
    """Run folder of the job that trained it."""
    workflow: Workflow
    follows_any: bool
    """Whether it is the joint policy, which follows any workflow."""


def find_policy(outcome: Outcome, workflow: str | None = None) -> FoundPolicy:
    """The policy of a run for a workflow; by default that of the best one.

    A policy that was trained under this workflow alone comes before the joint one.

    Raises:
        ConfigError: The workflow cannot be read, or no policy was trained under it.
        RunFolderError: The run has no policy yet.
    """
    info = outcome.info
    wanted = None if workflow is None else info.setup.space.parse(workflow)
    joint = JOINT in outcome.jobs and outcome.jobs[JOINT].state == "done"
    if wanted is None:
        if outcome.best is None and not joint:
            raise RunFolderError(f"No workflow of {info.folder} has been trained to its end yet.")
        wanted = info.setup.space.from_id(0) if outcome.best is None else outcome.best.workflow
    trained = latest_per_workflow(one for one in outcome.scored if one.kind == "train")
    if wanted.id in trained:
        return FoundPolicy(info.folder / trained[wanted.id].job, wanted, follows_any=False)
    if joint:
        return FoundPolicy(info.folder / JOINT, wanted, follows_any=True)
    known = ", ".join(str(info.setup.space.from_id(number)) for number in sorted(trained))
    raise ConfigError(
        f"{info.folder} has no policy for {wanted}. Trained: {known or 'none'}. Joint training "
        "makes a policy for all workflows: brisk workflow joint."
    )


def plain_folder(outcome: Outcome) -> Path | None:
    """The run folder of plain PPO, if it was trained."""
    job = outcome.jobs.get(PLAIN)
    return None if job is None or job.state != "done" else outcome.info.folder / PLAIN
