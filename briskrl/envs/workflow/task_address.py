"""Tasks by address, such as my_package.tasks:SUBNETS or my_tasks.py:SUBNETS."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from briskrl.core.errors import ConfigError, nearest
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import import_registering_modules
from briskrl.envs.gym.user_code import import_env_file, import_user_module
from briskrl.envs.workflow.task import WorkflowTask, is_task


def load_task(address: str, config: GymConfig | None = None) -> WorkflowTask:
    """A task of its own, from an address module:name or file.py:name.

    The name is that of a function without arguments that makes a task, or of a class of tasks.

    Args:
        address: The address.
        config: Settings whose packages and files are imported first.

    Raises:
        ConfigError: It cannot be imported, or is no task.
    """
    module_name, _, name = address.rpartition(":")
    if config is not None:
        import_registering_modules(config)
    module = import_task_module(address)
    found: Any = getattr(module, name, None)
    if found is None:
        raise ConfigError(f"{module_name} has no {name!r}. {nearest(name, vars(module))}")
    if not callable(found):
        raise ConfigError(
            f"{address} must be a function or a class that makes a task, because every process "
            "needs its own."
        )
    task = found()
    if not is_task(task):
        raise ConfigError(
            f"{address} made a {type(task).__name__}, which is no WorkflowTask: it needs "
            "categories, named, bind, open_mask and addressed."
        )
    return task  # type: ignore[no-any-return]


def import_task_module(address: str) -> ModuleType:
    """Import the module or file of an address.

    Raises:
        ConfigError: It cannot be imported.
    """
    module = address.rpartition(":")[0]
    return import_env_file(module) if module.endswith(".py") else import_user_module(module)
