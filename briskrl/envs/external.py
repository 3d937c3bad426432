"""Environments that the caller passes in: `train(config, env=...)`, with one env or many."""

from __future__ import annotations

from functools import partial
from inspect import isroutine
from typing import TYPE_CHECKING, Any, NoReturn

from briskrl.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from briskrl.core.spec import EnvSpec
    from briskrl.core.types import Array, EpisodeStats, ObsCodec, StepBuffers
    from briskrl.envs.base import AsyncVecEnv, VecEnv
    from briskrl.envs.gym.config import GymConfig

GIVEN = "given"
"""Name of such an environment in a run's config."""
REQUIRED = (
    *("env_spec", "num_envs", "start", "step_into"),
    *("drain_stats", "get_state", "set_state", "close"),
)
"""What a VecEnv of the caller must have; the rest has defaults."""


def adapt(env: Any) -> VecEnv | None:
    """A vector environment as a VecEnv: complete ones unchanged, others behind an adapter.

    Returns:
        None if it is a single environment, or a class or function that makes one; see `build_like`.

    Raises:
        ConfigError: It is none of these, or its spaces are not supported.
    """
    from briskrl.envs.base import MinimalVecEnv, VecEnv

    # The attributes of a class would look like those of its objects.
    if not isinstance(env, type) and isinstance(env, MinimalVecEnv) and _resets_in_same_step(env):
        return env if isinstance(env, VecEnv) else _CompletedVecEnv(env)
    missing = [name for name in REQUIRED if not hasattr(env, name)]
    if missing and hasattr(env, "step_into"):
        raise ConfigError(
            f"{type(env).__name__} has step_into, but is not a complete VecEnv: it has no "
            f"{', '.join(missing)}. briskrl.envs.base describes them."
        )
    if is_single(env):
        return None
    from briskrl.envs.gym.vector import adapt_vector

    return adapt_vector(env)


def is_single(env: Any) -> bool:
    """Whether it is a Gymnasium environment, or a class or function that makes one."""
    import gymnasium

    if isinstance(env, type):
        return issubclass(env, gymnasium.Env)
    return isinstance(env, gymnasium.Env) or isroutine(env) or isinstance(env, partial)


def build_like(env: Any, num_envs: int, config: GymConfig) -> VecEnv:
    """N environments like a single one; see `briskrl.envs.gym.given_factory`."""
    from briskrl.envs.gym.given_factory import build_given

    return build_given(env, num_envs, config)


class _CompletedVecEnv:
    """An environment of the caller, with defaults for the optional parts of a VecEnv."""

    def __init__(self, env: Any) -> None:
        self.env_spec: EnvSpec = env.env_spec
        self.num_envs: int = env.num_envs
        self.notes: Sequence[str] = getattr(env, "notes", ())
        self.codec: ObsCodec | None = getattr(env, "codec", None)
        self.async_env: AsyncVecEnv | None = getattr(env, "async_env", None)
        # The methods themselves, so that a step costs no more than without this object.
        self.start: Callable[[int, StepBuffers], None] = env.start
        self.step_into: Callable[[Array, StepBuffers], None] = env.step_into
        self.drain_stats: Callable[[], EpisodeStats] = env.drain_stats
        self.get_state: Callable[[], Mapping[str, Array]] = env.get_state
        self.set_state: Callable[[Mapping[str, Array]], None] = env.set_state
        self.close: Callable[[], None] = env.close


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
        "train(config, env=...), resume(run_dir, env=...) or evaluate(run_dir, env=...)."
    )
