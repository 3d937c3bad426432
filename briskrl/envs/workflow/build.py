"""The factory of the registry: environments with a workflow, from a name and settings."""

from __future__ import annotations

from briskrl.envs.make import make_env
from briskrl.envs.workflow.builtin_tasks import default_lambda, make_task, task_env_config
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.envs.workflow.env import WorkflowVecEnv


def build(
    member: str,
    num_envs: int,
    config: WorkflowEnvConfig,
    *,
    threads: int = 1,
    hold_ended: bool = False,
    render_mode: str | None = None,
) -> WorkflowVecEnv:
    """N environments of the family or id `member`, such as cage2, with a workflow each.

    Raises:
        ConfigError: They cannot be made, or have no task.
    """
    task = make_task(member, config)
    inner = make_env(
        member,
        num_envs,
        config=task_env_config(member, config),
        threads=threads,
        hold_ended=hold_ended,
        render_mode=render_mode,
    )
    try:
        return WorkflowVecEnv(
            inner,
            task,
            config,
            alignment_lambda=default_lambda(member),
            hold_ended=hold_ended,
        )
    except BaseException:
        inner.close()
        raise
