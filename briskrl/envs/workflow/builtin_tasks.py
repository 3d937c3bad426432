"""Environments that have a built-in task with workflows, and how tasks are found by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from briskrl.core.config import build, settings
from briskrl.core.errors import ConfigError, nearest
from briskrl.core.registry import load_object
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.registry import ENVS
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.envs.workflow.task import WorkflowTask
from briskrl.envs.workflow.task_address import load_task


@dataclass(frozen=True, slots=True)
class BuiltInTask:
    """A task that comes with an environment family."""

    factory: str
    """Address "module:function" of (config) -> WorkflowTask."""
    alignment_lambda: float = 1.0
    """Default weight of the bonus."""


TASKS = {
    "cage2": BuiltInTask("briskrl.envs.cage2.workflow_task:Cage2Task", alignment_lambda=30.0),
    "ordered-visit": BuiltInTask("briskrl.envs.ordered_visit.workflow_task:OrderedVisitTask"),
}
"""Built-in tasks by the name of their environment."""


def task_env_config(env: str, config: WorkflowEnvConfig) -> Any:
    """The settings of the environment `env` itself, such as cage2 or gym:CartPole-v1.

    Raises:
        ConfigError: The environment or a setting is unknown.
    """
    return build(ENVS.get(env).load_config(), settings(config.task_config, "task_config"))


def make_task(env: str, config: WorkflowEnvConfig) -> WorkflowTask:
    """The task of an environment, not bound yet: its categories and well-known workflows.

    Raises:
        ConfigError: The environment has no built-in task and the settings name none, or it cannot
            be loaded.
    """
    if config.task is not None:
        settings_of_env = task_env_config(env, config)
        return load_task(
            config.task, settings_of_env if isinstance(settings_of_env, GymConfig) else None
        )
    if env not in TASKS:
        raise ConfigError(
            f"The environment {env!r} has no built-in task with workflows. {nearest(env, TASKS)} "
            "For others give task, the address module:object of a WorkflowTask."
        )
    factory: Callable[[Any], WorkflowTask] = load_object(TASKS[env].factory)
    return factory(task_env_config(env, config))


def default_lambda(env: str) -> float:
    """Weight of the bonus of an environment unless the settings give one."""
    return TASKS[env].alignment_lambda if env in TASKS else 1.0
