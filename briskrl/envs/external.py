"""Environments that a caller made: `train(config, env=my_vector_env)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast

from briskrl.core.errors import ConfigError

if TYPE_CHECKING:
    from briskrl.envs.base import VecEnv

GIVEN = "given"
"""What a run's config calls such an environment."""


@dataclass(frozen=True, slots=True)
class GivenConfig:
    """The caller has settled everything."""

    def check(self) -> list[str]:
        """Nothing can be wrong with no settings."""
        return []


def adapt(env: Any) -> VecEnv:
    """The environment as a VecEnv: ours as they are, others behind an adapter.

    Raises:
        ConfigError: It is no vector environment, or its spaces cannot be used.
    """
    if hasattr(env, "step_into") and hasattr(env, "env_spec") and _resets_at_once(env):
        return cast("VecEnv", env)
    from briskrl.envs.gym.vector import adapt_vector

    return adapt_vector(env)


def _resets_at_once(env: Any) -> bool:
    """Whether one of ours follows the contract: made for Gymnasium, it may have another mode."""
    mode = getattr(env, "metadata", {}).get("autoreset_mode")
    return mode is None or getattr(mode, "name", mode) == "SAME_STEP"


def build(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: an environment cannot be made again from a name.

    Raises:
        ConfigError: Always.
    """
    raise ConfigError(
        "A given environment is one that Python code made and passed on. Pass it again: "
        "train(config, env=...) or resume(run_dir, env=...)."
    )
