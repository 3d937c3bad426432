"""A picklable factory of one Gymnasium environment: its id and the settings to make it with."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec as Registration

from briskrl.core.config import to_dict
from briskrl.core.errors import ConfigError, EnvWorkerError
from briskrl.core.spec import EnvSpec
from briskrl.envs.gym.actions import ActionConverter, make_action_converter
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.deadline import Deadline
from briskrl.envs.gym.known_packages import describe_unknown_id, import_known_package
from briskrl.envs.gym.preprocessing import PreprocessedEnv, make_arguments, preprocess
from briskrl.envs.gym.returned import unpack_reset
from briskrl.envs.gym.spaces import ObsConverter, make_obs_converter
from briskrl.envs.gym.user_code import describe_error, import_env_file, import_user_module
from briskrl.envs.gym_ids import register_envs

GymEnv = gymnasium.Env[Any, Any]


@dataclass(frozen=True, slots=True)
class EnvFactory:
    """Makes instances of one Gymnasium id with fixed settings; can be sent to other processes."""

    id: str
    config: GymConfig = field(default_factory=GymConfig)
    has_deadline: bool = True
    """Whether `make` ends constructors that hang; those in workers are watched by the trainer."""

    @property
    def name(self) -> str:
        """What messages call the environment."""
        return f"gym:{self.id}"

    @property
    def cache_key(self) -> Any:
        """Equal for factories that make equal environments, as JSON data; None if unknown."""
        return [self.id, to_dict(self.config)]

    def for_worker(self) -> EnvFactory:
        """This factory for a worker process."""
        return replace(self, has_deadline=False)

    def deadline(self, what: str) -> Deadline:
        """A deadline for calls into an instance; `what` continues its name in the message."""
        seconds = self.config.env_timeout if self.has_deadline else math.inf
        return Deadline(seconds, f"{self.name} {what}")

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
        config = self.config.expanded()
        arguments = make_arguments(registered.entry_point, config) | self.config.env_args
        if render_mode is not None:
            arguments["render_mode"] = render_mode
        self._import_entry_point(registered.entry_point)
        try:
            with self.deadline("cannot be made: its constructor"):
                env = gymnasium.make(registered, disable_env_checker=True, **arguments)
            return preprocess(env, config, self.name)
        except (ConfigError, EnvWorkerError):
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
            max_steps=self._longest_episode(env),
            has_mask=has_mask,
            exact_state=has_exact_state(self),
            frame_stack=env.frame_stack if isinstance(env, PreprocessedEnv) else 1,
            left_out=obs.left_out,
        )

    def _longest_episode(self, env: GymEnv) -> int | None:
        """The time limit of an instance, whoever applies it."""
        return self._registration().max_episode_steps

    def make_converters(self, env: GymEnv) -> tuple[ObsConverter, ActionConverter]:
        """Converters for the observations and actions of an instance."""
        source, joint = self.name, self.config.joint_actions
        action_converter = make_action_converter(env.action_space, joint=joint, source=source)
        return make_obs_converter(env.observation_space, source), action_converter

    def _registration(self) -> Registration:
        """A copy of the entry in Gymnasium's registry, with the time limit from the settings."""
        # As in Gymnasium, "package:id" names the package that registers the id.
        prefix, _, name = self.id.rpartition(":")
        import_registering_modules(self.config, prefix)
        if name not in gymnasium.registry:
            register_envs()
            import_known_package(name)
        try:
            found = copy.deepcopy(gymnasium.spec(name))
        except gymnasium.error.Error as error:
            raise ConfigError(describe_unknown_id(name)) from error
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
            raise ConfigError(f"{self.name} returned {error}.") from error

    def _make_error(self, error: Exception) -> ConfigError:
        # Gymnasium's own message names the extra to install.
        return ConfigError(f"{self.name} cannot be made: {describe_error(error)}")


def import_registering_modules(config: GymConfig, prefix: str = "") -> None:
    """Import what the settings name, because it registers environments.

    Args:
        config: The settings.
        prefix: The module in front of an id, as in gym:module:Id; may be empty.

    Raises:
        ConfigError: Something cannot be imported.
    """
    for path in config.env_files:
        import_env_file(path)
    for package in (*config.packages, *filter(None, [prefix])):
        import_user_module(package)
