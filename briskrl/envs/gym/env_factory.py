"""How one environment of Gymnasium is made, as data that can be sent to another process."""

from __future__ import annotations

import copy
import difflib
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec as Registration

from briskrl.core.errors import ConfigError
from briskrl.core.spec import EnvSpec
from briskrl.envs.gym.actions import Actor, act
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.spaces import Observer, observe

GymEnv = gymnasium.Env[Any, Any]


@dataclass(frozen=True, slots=True)
class EnvRecipe:
    """An id of Gymnasium and the settings to make it with."""

    id: str
    config: GymConfig = field(default_factory=GymConfig)

    def make(self, render_mode: str | None = None) -> GymEnv:
        """A new instance without Gymnasium's checking and time-limit wrappers.

        The limit is `max_steps` and counted by whoever steps, so that a step costs what the
        environment's own step costs.

        Raises:
            ConfigError: The id is unknown, or the environment cannot be made as asked.
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
        try:
            return gymnasium.make(registered, disable_env_checker=True, **arguments)
        except Exception as error:
            raise self._refusal(error) from error

    def make_vector(self, num_envs: int) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
        """The version of the environment that steps `num_envs` of them in one call.

        Raises:
            ConfigError: There is none, or it cannot be made as asked.
        """
        registered = self._registration()
        if registered.vector_entry_point is None:
            raise ConfigError(
                f"gym:{self.id} has no version that steps many of it in one call. "
                "Use --backend sync, process or async, or leave it to auto."
            )
        try:
            return gymnasium.make_vec(
                registered,
                num_envs=num_envs,
                vectorization_mode="vector_entry_point",
                **self.config.env_args,
            )
        except Exception as error:
            raise self._refusal(error) from error

    @property
    def entry_point(self) -> Any:
        """What the id is registered with: "module:Class", or whatever else makes an instance."""
        return self._registration().entry_point

    @property
    def max_steps(self) -> int | None:
        """Steps after which whoever steps has to cut an episode off; None for no limit."""
        registered = self._registration()
        if registered.additional_wrappers:
            # Gymnasium puts the limit under these wrappers; there it stays.
            return None
        return registered.max_episode_steps

    def spec(self) -> EnvSpec:
        """Shapes, dtypes and promises of one environment, read from an instance of it.

        Raises:
            ConfigError: It cannot be made, or its spaces cannot be used.
        """
        from briskrl.envs.gym.state_check import proves_exact

        env = self.make()
        try:
            obs, action = self.layout(env)
            # A mask of several choices at once says nothing about their combinations.
            single = isinstance(env.action_space, gymnasium.spaces.Discrete)
            has_mask = single and self._offers_mask(env)
        finally:
            env.close()
        return EnvSpec(
            obs=obs.spec,
            action=action.spec,
            max_steps=self._registration().max_episode_steps,
            has_mask=has_mask,
            exact_state=proves_exact(self),
        )

    def layout(self, env: GymEnv) -> tuple[Observer, Actor]:
        """How the observations of an instance are stored and its actions are handed over."""
        told = f"gym:{self.id}"
        actor = act(env.action_space, joint=self.config.joint_actions, told=told)
        return observe(env.observation_space, told), actor

    def _registration(self) -> Registration:
        """A copy of the entry in Gymnasium's table, with the time limit of the settings."""
        # "package:id" is how Gymnasium itself writes an id and the package that registers it.
        prefix, _, name = self.id.rpartition(":")
        for package in (*self.config.packages, *filter(None, [prefix])):
            try:
                import_module(package)
            except ImportError as error:
                raise ConfigError(
                    f"Cannot import {package!r} (--import): {error}. Is it installed here?"
                ) from error
        try:
            found = copy.deepcopy(gymnasium.spec(name))
        except gymnasium.error.Error as error:
            raise ConfigError(_unknown(name)) from error
        if self.config.max_steps is not None:
            found.max_episode_steps = self.config.max_steps
        return found

    def _offers_mask(self, env: GymEnv) -> bool:
        """Whether the environment tells legal actions, by a method or in its infos."""
        if env.has_wrapper_attr("action_masks"):
            return True
        try:
            _, info = env.reset(seed=0)
        except Exception as error:
            raise self._refusal(error) from error
        return "action_mask" in info

    def _refusal(self, error: Exception) -> ConfigError:
        # Gymnasium's own sentence tells which extra to install.
        told = " ".join(str(error).split())
        return ConfigError(f"gym:{self.id} cannot be made: {type(error).__name__}: {told}")


def _unknown(name: str) -> str:
    """What is wrong with an id, and which ids are near it."""
    close = difflib.get_close_matches(name, gymnasium.registry, n=3, cutoff=0.5)
    told = f"Gymnasium knows no environment {name!r}."
    if close:
        told += " Did you mean " + " or ".join(f"gym:{match}" for match in close) + "?"
    return f"{told} Environments of other packages need --import PACKAGE."
