"""Environments that the caller passes in: `train(config, env=my_vector_env)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast

from briskrl.core.errors import ConfigError

if TYPE_CHECKING:
    from briskrl.envs.base import VecEnv

GIVEN = "given"
"""Name of such an environment in a run's config."""


@dataclass(frozen=True, slots=True)
class GivenConfig:
    """No settings: the caller has made the environment."""

    def check(self) -> list[str]:
        """No problems."""
        return []


def adapt(env: Any) -> VecEnv:
    """The environment as a VecEnv: native ones unchanged, others behind an adapter.

    Raises:
        ConfigError: It is not a vector environment, or its spaces are not supported.
    """
    if hasattr(env, "step_into") and hasattr(env, "env_spec") and _resets_in_same_step(env):
        return cast("VecEnv", env)
    from briskrl.envs.gym.vector import adapt_vector

    return adapt_vector(env)


def _resets_in_same_step(env: Any) -> bool:
    """Whether the autoreset mode is SAME_STEP, which the VecEnv contract needs."""
    mode = getattr(env, "metadata", {}).get("autoreset_mode")
    return mode is None or getattr(mode, "name", mode) == "SAME_STEP"


def build(*args: Any, **kwargs: Any) -> NoReturn:
    """Fail: an external environment cannot be made from its name.

    Raises:
        ConfigError: Always.
    """
    raise ConfigError(
        "The environment of this run was passed in from Python. Pass it again: "
        "train(config, env=...) or resume(run_dir, env=...)."
    )
