"""Environments that the caller passes in as an instance, a class or a function that makes one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle
import gymnasium
from gymnasium.vector import SyncVectorEnv

from briskrl.core.errors import ConfigError, EnvWorkerError
from briskrl.envs.base import VecEnv
from briskrl.envs.gym.backend_selection import build_from
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory, GymEnv
from briskrl.envs.gym.preprocessing import preprocess
from briskrl.envs.gym.vector import adapt_vector


@dataclass(frozen=True, slots=True)
class GivenFactory(EnvFactory):
    """Makes instances by a function of the caller; `id` is a name for messages."""

    new: Callable[[], GymEnv] = gymnasium.Env

    def __reduce__(self) -> tuple[Any, ...]:
        # Also functions and classes of the main program, which other processes do not import.
        made = cloudpickle.dumps(self.new)
        return _unpickled, (self.id, self.config, self.has_deadline, made)

    @property
    def name(self) -> str:
        """What messages call the environment."""
        return self.id

    @property
    def cache_key(self) -> None:
        """None: two functions may have the same name."""
        return

    @property
    def entry_point(self) -> None:
        """None: there are no compiled versions."""
        return

    @property
    def max_steps(self) -> int | None:
        """Steps after which the caller must truncate an episode; None for no limit."""
        return self.config.max_steps

    def make(self, render_mode: str | None = None) -> GymEnv:
        """A new instance.

        Raises:
            ConfigError: It cannot be made, or is no environment.
            EnvWorkerError: Its constructor takes longer than env_timeout.
        """
        try:
            with self.deadline("cannot be made: its constructor"):
                env = self.new()
        except EnvWorkerError:
            raise
        except Exception as error:
            raise self._make_error(error) from error
        if not isinstance(env, gymnasium.Env):
            raise ConfigError(
                f"{self.name} returned {type(env).__name__}, which is not a gymnasium.Env."
            )
        return preprocess(env, self.config.expanded(), self.name)

    def _longest_episode(self, env: GymEnv) -> int | None:
        registered = None if env.spec is None else env.spec.max_episode_steps
        return self.config.max_steps or registered


def build_given(env: Any, num_envs: int, config: GymConfig) -> VecEnv:
    """N environments like the one that the caller passed: an instance, a class or a function.

    Raises:
        ConfigError: It cannot be copied or used, or a setting is for registered ids only.
    """
    for key in ("env_args", "packages", "env_files"):
        if getattr(config, key):
            raise ConfigError(f"{key} is for environments that are named by an id, not passed in.")
    if config.backend in ("compiled", "vector"):
        raise ConfigError(
            f"The backend {config.backend!r} is for environments that are named by an id. "
            "Use sync, process, async or auto."
        )
    if not isinstance(env, gymnasium.Env):
        name = getattr(env, "__qualname__", type(env).__name__)
        return build_from(GivenFactory(name, config, new=env), num_envs)
    name = type(env.unwrapped).__name__
    new = _copier(env)
    if new is None:
        return _alone(env, name, num_envs)
    return build_from(GivenFactory(name, config, new=new), num_envs)


def _copier(env: GymEnv) -> Callable[[], GymEnv] | None:
    """A function that makes environments like this one; None if it cannot be copied."""
    spec = env.spec
    if spec is not None:
        kwargs = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
        spec = replace(spec, kwargs=kwargs)
        try:
            gymnasium.make(spec, disable_env_checker=True).close()
        except Exception:
            # A wrapper whose arguments are not recorded; it may still be copied.
            pass
        else:
            return lambda: gymnasium.make(spec, disable_env_checker=True)
    try:
        model = pickle.loads(cloudpickle.dumps(env))
    except Exception:
        return None
    return lambda: copy.deepcopy(model)


def _alone(env: GymEnv, name: str, num_envs: int) -> VecEnv:
    """The one instance as a batch of one."""
    if num_envs > 1:
        raise ConfigError(
            f"This {name} cannot be copied, and num_envs is {num_envs}. Pass its class or a "
            "function that makes one, or train on this one alone with num_envs=1."
        )
    return adapt_vector(SyncVectorEnv([lambda: env]))


def _unpickled(name: str, config: GymConfig, has_deadline: bool, made: bytes) -> GivenFactory:
    return GivenFactory(name, config, has_deadline, pickle.loads(made))
