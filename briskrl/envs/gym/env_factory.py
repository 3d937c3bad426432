"""A picklable factory of one Gymnasium environment: its id and the settings to make it with."""

from __future__ import annotations

import copy
import difflib
import math
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec as Registration

from briskrl.core.errors import ConfigError, EnvWorkerError
from briskrl.core.spec import EnvSpec
from briskrl.envs.gym.actions import ActionConverter, make_action_converter
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.deadline import Deadline
from briskrl.envs.gym.returned import unpack_reset
from briskrl.envs.gym.spaces import ObsConverter, make_obs_converter
from briskrl.envs.gym_ids import register_envs

GymEnv = gymnasium.Env[Any, Any]


@dataclass(frozen=True, slots=True)
class EnvFactory:
    """Makes instances of one Gymnasium id with fixed settings; can be sent to other processes."""

    id: str
    config: GymConfig = field(default_factory=GymConfig)
    has_deadline: bool = True
    """Whether `make` ends constructors that hang; those in workers are watched by the trainer."""

    def for_worker(self) -> EnvFactory:
        """This factory for a worker process."""
        return replace(self, has_deadline=False)

    def deadline(self, what: str) -> Deadline:
        """A deadline for calls into an instance; `what` continues "gym:ID" in the message."""
        seconds = self.config.env_timeout if self.has_deadline else math.inf
        return Deadline(seconds, f"gym:{self.id} {what}")

    def make(self, render_mode: str | None = None) -> GymEnv:
        """A new instance without Gymnasium's checking and time-limit wrappers.

        Callers apply the time limit `max_steps` themselves, which saves the cost of the wrappers in
        every step.

        Raises:
            ConfigError: The id is unknown, or the environment cannot be made with these settings.
            EnvWorkerError: Its constructor takes longer than env_timeout.
        """
        registered = self._registration()
        if registered.entry_point is None:
            raise ConfigError(
                f"gym:{self.id} is registered as a vector environment only. Make it in Python with "
                "gymnasium.make_vec and pass it to train(config, env=...)."
            )
        if not registered.additional_wrappers:
            registered.max_episode_steps = None
        registered.order_enforce = False
        arguments = dict(self.config.env_args)
        if render_mode is not None:
            arguments["render_mode"] = render_mode
        self._import_entry_point(registered.entry_point)
        try:
            with self.deadline("cannot be made: its constructor"):
                return gymnasium.make(registered, disable_env_checker=True, **arguments)
        except EnvWorkerError:
            raise
        except Exception as error:
            raise self._make_error(error) from error

    def make_vector(self, num_envs: int) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
        """The environment's own vector version, which steps `num_envs` copies in one call.

        Raises:
            ConfigError: There is none, or it cannot be made with these settings.
        """
        registered = self._registration()
        if registered.vector_entry_point is None:
            raise ConfigError(
                f"gym:{self.id} has no vector version of its own. "
                "Use --backend sync, process or async, or leave the choice to auto."
            )
        self._import_entry_point(registered.vector_entry_point)
        try:
            with self.deadline("cannot be made: its constructor"):
                return gymnasium.make_vec(
                    registered,
                    num_envs=num_envs,
                    vectorization_mode="vector_entry_point",
                    **self.config.env_args,
                )
        except EnvWorkerError:
            raise
        except Exception as error:
            raise self._make_error(error) from error

    def _import_entry_point(self, entry_point: Any) -> None:
        """Import the module of an environment before its deadline begins; imports may be slow."""
        if isinstance(entry_point, str):
            try:
                import_module(entry_point.partition(":")[0])
            except Exception as error:
                raise self._make_error(error) from error

    @property
    def entry_point(self) -> Any:
        """The registered entry point: "module:Class" or a callable."""
        return self._registration().entry_point

    @property
    def max_steps(self) -> int | None:
        """Steps after which the caller must truncate an episode; None for no limit."""
        registered = self._registration()
        if registered.additional_wrappers:
            # Gymnasium applies the limit itself, below these wrappers.
            return None
        return registered.max_episode_steps

    def spec(self) -> EnvSpec:
        """Spaces, masks and other properties of the environment, read from a new instance.

        Raises:
            ConfigError: It cannot be made, or its spaces are not supported.
        """
        from briskrl.envs.gym.state_check import has_exact_state

        env = self.make()
        try:
            obs, action = self.make_converters(env)
            # A mask over several actions at once does not say which combinations are legal.
            single = isinstance(env.action_space, gymnasium.spaces.Discrete)
            has_mask = single and self._offers_mask(env)
        finally:
            env.close()
        return EnvSpec(
            obs=obs.spec,
            action=action.spec,
            max_steps=self._registration().max_episode_steps,
            has_mask=has_mask,
            exact_state=has_exact_state(self),
        )

    def make_converters(self, env: GymEnv) -> tuple[ObsConverter, ActionConverter]:
        """Converters for the observations and actions of an instance."""
        source, joint = f"gym:{self.id}", self.config.joint_actions
        action_converter = make_action_converter(env.action_space, joint=joint, source=source)
        return make_obs_converter(env.observation_space, source), action_converter

    def _registration(self) -> Registration:
        """A copy of the entry in Gymnasium's registry, with the time limit from the settings."""
        # As in Gymnasium, "package:id" names the package that registers the id.
        prefix, _, name = self.id.rpartition(":")
        for package in (*self.config.packages, *filter(None, [prefix])):
            try:
                import_module(package)
            except ImportError as error:
                raise ConfigError(
                    f"Cannot import {package!r} (--import): {error}. Is it installed here?"
                ) from error
        if name not in gymnasium.registry:
            register_envs()
        try:
            found = copy.deepcopy(gymnasium.spec(name))
        except gymnasium.error.Error as error:
            raise ConfigError(_unknown_id(name)) from error
        if self.config.max_steps is not None:
            found.max_episode_steps = self.config.max_steps
        return found

    def _offers_mask(self, env: GymEnv) -> bool:
        """Whether the environment provides action masks, by a method or in its infos."""
        if env.has_wrapper_attr("action_masks"):
            return True
        try:
            with self.deadline("cannot be used: its first reset"):
                result = env.reset(seed=0)
        except EnvWorkerError:
            raise
        except Exception as error:
            raise self._make_error(error) from error
        try:
            return "action_mask" in unpack_reset(result)[1]
        except ValueError as error:
            raise ConfigError(f"gym:{self.id} returned {error}.") from error

    def _make_error(self, error: Exception) -> ConfigError:
        # Gymnasium's own message names the extra to install.
        message = " ".join(str(error).split())
        return ConfigError(f"gym:{self.id} cannot be made: {type(error).__name__}: {message}")


def _unknown_id(name: str) -> str:
    """The error message for an unknown id, with the nearest known ones."""
    close = difflib.get_close_matches(name, gymnasium.registry, n=3, cutoff=0.5)
    message = f"Gymnasium has no environment {name!r}."
    if close:
        message += " Did you mean " + " or ".join(f"gym:{match}" for match in close) + "?"
    return f"{message} Environments of other packages need --import PACKAGE."
