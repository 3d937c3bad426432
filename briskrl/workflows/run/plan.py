"""What a run is going to do, for --dry-run."""

from __future__ import annotations

from briskrl.core.types import JSON
from briskrl.workflows.run.folder import Mode
from briskrl.workflows.run.joint import joint_plan
from briskrl.workflows.run.run import check_run
from briskrl.workflows.run.setup import RunSetup


def plan_json(setup: RunSetup, mode: Mode) -> dict[str, JSON]:
    """The plan of a run.

    Raises:
        ConfigError: The episodes do not suffice.
    """
    check_run(setup, mode)
    config = setup.config
    facts: dict[str, JSON] = {
        "mode": mode,
        "task": config.task,
        "categories": list(setup.space.categories),
        "seed": config.seed,
        "executor": config.executor_name,
        "parallel_workflows": config.jobs,
        "threads": setup.threads,
        "plain_ppo": setup.wants_plain_ppo and mode != "train",
    }
    if mode == "joint":
        return facts | joint_plan(setup)
    if mode == "ppo":
        return facts | {"total_episodes": config.total_episodes}
    return facts | setup.plan().as_json()
