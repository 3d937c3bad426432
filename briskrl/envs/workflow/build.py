"""The factory of the registry: environments with a workflow, from a name and settings."""

from __future__ import annotations

from briskrl.envs.base import VecEnv
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.make import make_env
from briskrl.envs.workflow.builtin_tasks import default_lambda, make_task, task_env_config
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.envs.workflow.env import WorkflowVecEnv
from briskrl.envs.workflow.incidents import IncidentTask, make_incident_env


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
    task, env_config = make_task(member, config), task_env_config(member, config)
    inner: VecEnv
    if isinstance(env_config, GymConfig) and config.task is not None:
        inner = make_incident_env(
            member.partition(":")[2],
            num_envs,
            env_config,
            config.task,
            m=len(task.categories),
            hold_ended=hold_ended,
            render_mode=render_mode,
        )
        task = IncidentTask(task)
    else:
        inner = make_env(
            member,
            num_envs,
            config=env_config,
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
